/**
 * OpenAI's API below `/v1`, for its official clients: this folder translates both ways between that API and jobs. Nothing
 * behind it knows OpenAI's shapes, and nothing in it knows SQL or model servers.
 *
 * - A route has `config: { bearer: true }`: its key is an API key, sent as `Authorization: Bearer`. The server has checked it,
 *   the body is parsed JSON (`request.body`), and `request.caller` is known. With `translation`, a thread reads large bodies
 *   (`read-body.ts`), and the job is in `request.largeBody`.
 * - Errors: throw a `FieldProblem` or a `V1Error` (`errors.ts`), or let any `HttpError` of the shared code pass: below `/v1/` the
 *   server sends all of them in OpenAI's shape, with `x-should-retry` and `retry-after-ms`, also those before a route is found. An
 *   error that is not the caller's fault, such as a failed job, is sent with `sendV1Error`, because thrown errors are paced.
 * - `fields.ts` decides which fields are supported, ignored, or accepted with a neutral value.
 * - `fields.ts` reads conversations, options and formats, `answers.ts` the outcome of a job.
 * - `held-creates.ts`: `create` stores a job, `hold` also waits until it has ended or the server must answer (408).
 * - `batches.ts` has the routes of batches, `batch-lines.ts` the shape of their lines. `batches/` runs them.
 * - `upload.ts` and `multipart.ts`: a file is stored while it arrives. `files/` knows nothing of OpenAI's shapes.
 */
import type { FastifyInstance } from 'fastify'
import { type BatchRoutes, batchesRoutes } from './batches.ts'
import { type ChatRoute, chatRoute } from './chat-completions.ts'
import { type FileRoutes, fileRoutes } from './files.ts'
import { inputItemsRoute } from './input-items.ts'
import { type ModelRoutes, modelRoutes } from './models.ts'
import { type ResponseRoutes, responseRoutes } from './responses.ts'

export interface V1Options extends ChatRoute, BatchRoutes, FileRoutes, ModelRoutes {
  readonly store: BatchRoutes['store'] & ResponseRoutes['store']
  readonly reader: ResponseRoutes['reader']
  readonly actions: ResponseRoutes['actions']
}

export function v1Routes(app: FastifyInstance, options: V1Options): void {
  chatRoute(app, options)
  modelRoutes(app, options)
  responseRoutes(app, options)
  inputItemsRoute(app, options)
  fileRoutes(app, options)
  batchesRoutes(app, options)
}
