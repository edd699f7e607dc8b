/** Exports the public interface of the package. */
export { type AnswerSchema, jsonSchema, withJsonSchema } from './answer-schema.ts'
export { ApiPromise, type WithResponse } from './api-promise.ts'
export type { Clock } from './clock.ts'
export type { BatchOptions } from './create-batch.ts'
export * from './errors.ts'
export type { AnswerInfo, CallOptions, HeaderOptions } from './exchange.ts'
export type * from './job.ts'
export type { JobList, ListOptions } from './job-list.ts'
export type { Logger, LogLevel } from './logger.ts'
export {
  type CreateAndWaitOptions,
  type CreateOptions,
  completed,
  type DeleteOptions,
  type Messages,
  type RetrieveOptions,
} from './messages.ts'
export type { JobIds } from './open-jobs.ts'
export { Parley, type ParleyOptions } from './parley.ts'
export type { StandardJSONSchemaV1, StandardSchemaV1 } from './standard-schema.ts'
export { VERSION } from './version.ts'
export type { WaitAllOptions, WaitEachOptions, WaitOptions } from './wait.ts'
export type { VerifyOptions, WebhookHeaders } from './webhooks.ts'
export * as webhooks from './webhooks.ts'
