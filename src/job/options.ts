/** The options of a job: how the model writes its answer. Options that the caller omits are not sent. */
import { type Static, Type } from '../typed-schema.ts'

const MAX_STOP = { items: 4, length: 256 } as const

const stopText = Type.String({ minLength: 1, maxLength: MAX_STOP.length })
const penalty = (about: string) =>
  Type.Optional(
    Type.Number({
      minimum: -2,
      maximum: 2,
      description: `Above 0, the model is less likely to repeat ${about}.`,
    }),
  )

export const jobOptions = Type.Object(
  {
    temperature: Type.Optional(
      Type.Number({ minimum: 0, maximum: 2, description: 'Higher values make answers vary more.' }),
    ),
    top_p: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 1,
        description:
          'The model chooses among the most likely tokens whose probabilities add up to this value.',
      }),
    ),
    max_tokens: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        description:
          'Maximum tokens of the answer. A longer text is cut; an answer in JSON that is cut fails with `validation_error`.',
      }),
    ),
    stop: Type.Optional(
      Type.Union([stopText, Type.Array(stopText, { maxItems: MAX_STOP.items })], {
        description: 'The answer ends before the first of these texts.',
      }),
    ),
    seed: Type.Optional(
      Type.Integer({
        minimum: -Number.MAX_SAFE_INTEGER,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'Servers that support it give the same answer to the same request with the same seed.',
      }),
    ),
    presence_penalty: penalty('what it has already mentioned'),
    frequency_penalty: penalty('what it has already written often'),
    reasoning_effort: Type.Optional(
      Type.Enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'], {
        description: 'How much a reasoning model thinks before it answers.',
      }),
    ),
    verbosity: Type.Optional(
      Type.Enum(['low', 'medium', 'high'], { description: 'How long and detailed answers are.' }),
    ),
  },
  {
    additionalProperties: false,
    title: 'Options',
    description:
      'How the model writes its answer. If the model server rejects an option, the job fails with an error that names it.',
  },
)

export type JobOptions = Static<typeof jobOptions>

/** A job stores its options in this order. */
export const OPTION_NAMES = Object.keys(jobOptions.properties) as readonly (keyof JobOptions)[]

/** Returns null if the message of the model server names none of the options. */
export function namedOption(optionsJson: string, message: string): string | null {
  const words = message.match(/\w+/g)?.map((word) => (word === 'max_completion_tokens' ? 'max_tokens' : word))
  const options: JobOptions = JSON.parse(optionsJson)
  return words?.find((word) => Object.hasOwn(options, word)) ?? null
}
