/**
 * The bounds and defaults of request fields, and the error of a field that violates a rule. They are separate from the schema
 * (request.ts), because loading its library takes longer than the rest of a command that sends a job.
 */
export const CACHE_TTL_S = { least: 180, most: 3600, default: 300 } as const
export const TIMEOUT_S = { least: 30, most: 120, default: 90 } as const
export const COMPLETE_WITHIN_S = { least: 1, most: 2_592_000 } as const

/** A request field that violates a rule, for code without HTTP. The server answers it with 400. */
export class FieldProblem extends Error {
  /** @param field its path, as the caller wrote it */
  constructor(field: string, rule: string) {
    super(`${field}: ${rule}`)
  }
}
