/** Example requests. */
import { type Draft, firstDraft, message } from './draft.ts'

export interface Example {
  readonly name: string
  readonly draft: Partial<Draft>
  /** True if the example works only with the built-in simulator. */
  readonly simulated?: true
}

const RIVER = {
  type: 'object',
  properties: {
    river: { type: 'string', description: 'Its name in English.' },
    km: { type: 'number', description: 'Its length.' },
  },
  required: ['river', 'km'],
  additionalProperties: false,
}

export const EXAMPLES: readonly Example[] = [
  { name: 'Hello', draft: {} },
  {
    name: 'Four roles',
    draft: {
      messages: [
        message('system', 'You are a librarian.'),
        message('developer', 'Answer in one sentence.'),
        message('user', 'Which book should I read by the sea?'),
        message('assistant', 'What did you like last?'),
        message('user', 'Moby-Dick.'),
      ],
    },
  },
  {
    name: 'JSON with a schema',
    draft: {
      messages: [message('user', 'Name a river.')],
      format: 'json',
      schema: JSON.stringify(RIVER, null, 2),
    },
  },
  {
    name: 'A batch of variants',
    draft: {
      messages: [
        message('system', 'Answer with the name alone.'),
        message('user', 'The capital of {{input}}?'),
      ],
      mode: 'batch',
      variants: 'France\nJapan\nPeru',
    },
  },
  {
    name: 'A slow answer',
    draft: { messages: [message('user', '[[delay 4s]] Take your time.')] },
    simulated: true,
  },
  {
    name: 'A failure',
    draft: { messages: [message('user', '[[fail model_error]] This will not work.')] },
    simulated: true,
  },
  {
    name: 'A repaired answer',
    draft: {
      messages: [message('user', '[[bad-json once]] Name a river.')],
      format: 'json',
      schema: JSON.stringify(RIVER, null, 2),
    },
    simulated: true,
  },
]

/** Fills in an example, but keeps the selected model. */
export function draftOf({ draft }: Example, model: string): Draft {
  const whole = { ...firstDraft(), ...draft, model }
  return { ...whole, messages: whole.messages.map(({ role, content }) => message(role, content)) }
}
