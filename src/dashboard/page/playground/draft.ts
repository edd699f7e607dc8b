/**
 * Defines the request that the playground edits, and the examples to start from. The session storage of the tab keeps the
 * request.
 */
import { type IgnoredKeywords, meetsStrictRules, readSchema } from 'parley-json-schema'
import type { Message, Role } from '../contract.ts'

export interface DraftMessage extends Message {
  /** Identifies the message when it moves, so that its field keeps the focus. */
  readonly id: number
}

export interface Draft {
  readonly model: string
  readonly messages: readonly DraftMessage[]
  readonly format: 'text' | 'json'
  /** `schema` is the text of the schema field. If the text is empty, any JSON value is accepted. */
  readonly schema: string
  readonly mode: 'single' | 'batch'
  readonly copies: number
  /** Each line is a variant and results in a job, in which the line replaces INPUT. */
  readonly variants: string
  readonly callbackUrl: string
}

/** The line of a variant replaces this placeholder in messages. */
export const INPUT = '{{input}}'

export interface JobBody {
  readonly model: string
  readonly response_format: { readonly format: 'text' | 'json'; readonly schema?: unknown }
  readonly messages: readonly Message[]
  readonly callback?: { readonly callback_url: string }
}

let lastId = 0
export function message(role: Role, content: string): DraftMessage {
  lastId += 1
  return { id: lastId, role, content }
}

export function firstDraft(): Draft {
  return {
    model: 'gpt-auto',
    messages: [message('user', 'Hello, Parley!')],
    format: 'text',
    schema: '',
    mode: 'single',
    copies: 3,
    variants: '',
    callbackUrl: '',
  }
}

const STORED = 'parley.playground-draft'

export function storedDraft(): Draft {
  try {
    const stored = JSON.parse(sessionStorage.getItem(STORED) ?? 'null') as Draft | null
    if (!stored) return firstDraft()
    return { ...stored, messages: stored.messages.map(({ role, content }) => message(role, content)) }
  } catch {
    return firstDraft()
  }
}

export function storeDraft(draft: Draft): void {
  sessionStorage.setItem(STORED, JSON.stringify(draft))
}

/** If the schema is not valid JSON, the job has no schema, and the editor shows an error. */
export function jobOf(draft: Draft, input: string | null = null): JobBody {
  const { model, messages, format, schema } = draft
  const parsed = format === 'json' && schema.trim() !== '' ? parsedOr(schema) : undefined
  return {
    model,
    response_format: { format, ...(parsed !== undefined && { schema: parsed }) },
    messages: messages.map(({ role, content }) => ({
      role,
      content: input === null ? content : content.replaceAll(INPUT, () => input),
    })),
  }
}

export function batchOf(draft: Draft): JobBody[] {
  const url = draft.callbackUrl.trim()
  const callback = url === '' ? {} : { callback: { callback_url: url } }
  const lines = variantsOf(draft)
  const inputs = lines.length > 0 ? lines : Array<null>(draft.copies).fill(null)
  return inputs.map((input) => ({ ...jobOf(draft, input), ...callback }))
}

export function variantsOf({ variants }: Draft): string[] {
  return variants.split('\n').filter((line) => line.trim() !== '')
}

function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

interface Example {
  readonly name: string
  readonly draft: Partial<Draft>
  /** The example works only with the built-in simulator. */
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

export function draftOf({ draft }: Example, model: string): Draft {
  const whole = { ...firstDraft(), ...draft, model }
  return { ...whole, messages: whole.messages.map(({ role, content }) => message(role, content)) }
}

interface SchemaVerdict {
  readonly kind: 'none' | 'fault' | 'good'
  readonly words: string
}

/** Uses the same code as the server, so both accept the same schemas. */
export function checkSchema(text: string): SchemaVerdict {
  if (text.trim() === '') return { kind: 'none', words: 'Without a schema, any JSON value is accepted.' }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { kind: 'fault', words: `Not valid JSON: ${positionOf(text, error)}` }
  }
  const read = readSchema(value)
  if (!read.ok) return { kind: 'fault', words: `response_format.${read.path} ${read.rule}` }
  const words = meetsStrictRules(read.schema)
    ? 'The schema is valid and strict: model servers can enforce it.'
    : 'The schema is valid, but is not sent as strict: for example, an object has optional properties or allows others, or strict servers do not support a keyword.'
  return { kind: 'good', words: words + notChecked(read.schema.ignored) }
}

function notChecked({ pointers, more }: IgnoredKeywords): string {
  const listed = more > 0 ? [...pointers, `${more} more`] : pointers
  return listed.length === 0 ? '' : ` Accepted, but not checked: ${listed.join(', ')}.`
}

/** Returns the error with its line and column, if the browser reports the position. */
function positionOf(text: string, error: unknown): string {
  const words = error instanceof Error ? error.message : String(error)
  const position = /position (\d+)/.exec(words)?.[1]
  if (position === undefined) return words
  const before = text.slice(0, Number(position)).split('\n')
  const [what = words] = words.split(/ in JSON| at position/)
  return `${what} at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}.`
}
