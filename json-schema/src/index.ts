/** Exports the public interface of the package. */
export type { AnswerSchema, IgnoredKeywords, SchemaSource } from './answer-schema.ts'
export { type CheckResult, checkAnswer, infiniteNumberError } from './check-answer.ts'
export { CHECK_STEPS, checkSteps, FIRST_CHECK_STEPS, StepBudget } from './limits.ts'
export { makeExample } from './make-example.ts'
export { type ReadSchemaResult, readSchema } from './read-schema.ts'
export { meetsStrictRules } from './strict-rules.ts'
