/** The public interface of the package. */
export { type AnswerSchema, jsonSchema, withJsonSchema } from './answer-schema.ts'
export type { Clock } from './clock.ts'
export type { BatchOptions } from './create-batch.ts'
export * from './errors.ts'
export type { AnswerInfo, CallOptions } from './exchange.ts'
export type * from './job.ts'
export {
  type CreateAndWaitOptions,
  type CreateOptions,
  completed,
  type Messages,
  type RetrieveOptions,
} from './messages.ts'
export { Parley, type ParleyOptions } from './parley.ts'
export type { StandardJSONSchemaV1, StandardSchemaV1 } from './standard-schema.ts'
export type { WaitAllOptions, WaitOptions } from './wait.ts'
export type { VerifyOptions, WebhookHeaders } from './webhooks.ts'
export * as webhooks from './webhooks.ts'
