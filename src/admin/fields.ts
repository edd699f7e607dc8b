/** Defines fields that several resources, filters and actions share. Times are Unix seconds. */
import { MODEL_NAME } from '../job/request.ts'
import { CALLBACK_STATES } from '../store/callback-store.ts'
import { MAX_SCANNED } from '../store/chunked-search.ts'
import { type Schema, type Static, Type } from '../typed-schema.ts'

export const strict = { additionalProperties: false } as const

export const orNull = <S extends Schema>(schema: S): Schema<Static<S> | null> =>
  Type.Union([schema, Type.Null()])
export const anyObject = (description: string): Schema<Readonly<Record<string, unknown>>> =>
  Type.Object({}, { additionalProperties: true, description })
export const textOrNull = (description: string) => Type.Union([Type.String(), Type.Null()], { description })
export const unixTime = (description: string) => Type.Number({ description: `${description} (Unix seconds)` })
export const unixTimeOrNull = (description: string) =>
  Type.Union([Type.Number(), Type.Null()], { description: `${description} (Unix seconds)` })

/** Paths and queries of URLs often contain secrets, so the audit log and responses to read-only tokens have only the origin. */
export const originOf = (url: string): string => new URL(url).origin

export const count = Type.Integer({ minimum: 0 })
export const DEFAULT_TIERS = ['user_free', 'user_go', 'user_pro', 'user_max']
/** The schema allows any text, because only the configuration determines which tiers exist (`ActionTools.tiers`). */
export const tierName = Type.String({
  description: `A configured tier: ${DEFAULT_TIERS.join(', ')}, or one of your own.`,
  examples: ['user_pro'],
})
export const callbackState = Type.Enum(CALLBACK_STATES, { description: 'The state of the callback.' })
export const jobStatus = Type.Enum(['pending', 'assigned', 'completed', 'failed'], {
  description: 'The state of the job.',
})

export const ACCOUNT_NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/
export const ACCOUNT_RULE = 'letters, digits and . _ @ - only, 64 at most, a letter or digit first'

/** No account has a name that the pattern rejects, and some databases fail on characters such as NUL. */
export const accountName = Type.String({
  pattern: ACCOUNT_NAME.source,
  description: 'The name of an account.',
  examples: ['acme'],
})
export const modelName = Type.String({
  pattern: MODEL_NAME,
  description: 'A public model name.',
  examples: ['gpt-5-mini'],
})

export const LIMIT = { most: 200, default: 50 } as const
export const limit = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: LIMIT.most,
    default: LIMIT.default,
    description: 'The maximum number of results.',
    examples: [100],
  }),
)

export const more = Type.Boolean({ description: 'Whether there are more results.' })
export const next = (parameter: string) =>
  textOrNull(`Pass this value as \`${parameter}\` to get the next page.`)

/** Searches examine a limited number of rows, so their responses have these fields. */
export const paging = {
  more,
  complete: Type.Boolean({
    description: `False if the search stopped after examining ${MAX_SCANNED} rows; continue with \`next\`.`,
  }),
  next: next('before'),
}

/** Times of keys, accounts and callbacks are whole seconds. Times of jobs have fractions instead. */
export function wholeSeconds(ms: number | null): number | null {
  return ms === null ? null : Math.floor(ms / 1000)
}

export function seconds(ms: number | null): number | null {
  return ms === null ? null : ms / 1000
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

export function defined<T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>
}
