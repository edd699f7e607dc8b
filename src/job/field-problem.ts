/** A request field that violates a rule, for code without HTTP. The server answers it with 400. */
export class FieldProblem extends Error {
  /** @param field its path, as the caller wrote it */
  constructor(field: string, rule: string) {
    super(`${field}: ${rule}`)
  }
}
