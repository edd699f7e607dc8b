/**
 * The bounds and defaults of request fields in seconds, and the error of a wrong field. They are not in request.ts, because its
 * library takes longer to load than the rest of a command that sends a job.
 */
export const CACHE_TTL_S = { least: 180, most: 3600, default: 300 } as const
export const TIMEOUT_S = { least: 30, most: 120, default: 90 } as const
export const COMPLETE_WITHIN_S = { least: 1, most: 2_592_000 } as const

/** A field of a request is invalid. This error knows nothing about HTTP. If nothing catches it, the server responds with 400. */
export class FieldProblem extends Error {
  constructor(field: string, rule: string) {
    super(`${field}: ${rule}`)
  }
}
