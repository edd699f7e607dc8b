/**
 * The bounds and defaults of request fields in seconds, and the error of a field that violates a rule. They are separate from
 * the schema (request.ts), because the library of the schema takes longer to load than the rest of a command that sends a job.
 */
export const CACHE_TTL_S = { least: 180, most: 3600, default: 300 } as const
export const TIMEOUT_S = { least: 30, most: 120, default: 90 } as const
export const COMPLETE_WITHIN_S = { least: 1, most: 2_592_000 } as const

/** The server responds with 400. Code that knows nothing about HTTP throws this error. */
export class FieldProblem extends Error {
  /** @param field the path of the field, as the caller wrote it */
  constructor(field: string, rule: string) {
    super(`${field}: ${rule}`)
  }
}
