/** A field of a request that violates a rule, in code that knows nothing of HTTP. The server answers it with 400. */
export class FieldProblem extends Error {
  /** @param field its path as the caller wrote it */
  constructor(field: string, rule: string) {
    super(`${field}: ${rule}`)
  }
}
