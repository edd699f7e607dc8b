/** Creates a route of the admin API for each admin action that `admin/actions/` declares. */
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify'
import {
  type ActionRoute,
  type ActionTools,
  type AnyAction,
  type AnyInput,
  type Download,
  SUBJECTS,
} from '../../admin/action.ts'
import { isOperatorName, MAX_CHARACTERS } from '../../admin/operator-name.ts'
import { Refusal, type RefusalReason } from '../../admin/refusals.ts'
import { BATCH_PREFIX } from '../../job/job-id.ts'
import { isObject, type JsonObject } from '../../json-object.ts'
import { type Schema, Type } from '../../typed-schema.ts'
import { sendData } from '../envelope.ts'
import {
  accountStillUsed,
  batchEnded,
  callbackInProgress,
  type HttpError,
  invalid,
  jobEnded,
  jobNotEnded,
  keyNotActive,
  noSuchAccount,
  noSuchBatch,
  noSuchBatchFile,
  noSuchCallback,
  noSuchJob,
  noSuchKey,
  noSuchToken,
  notRerun,
  notScrubbed,
  otherTier,
  tokenNameTaken,
} from '../errors.ts'
import { fillMissingBody, isBodyRequired } from '../json-body.ts'
import { addressOf } from '../network-of.ts'
import { mapValues } from '../openapi/build-document.ts'
import { EXAMPLE_JOB_ID } from '../openapi/examples.ts'
import { jobIdParam } from '../openapi/job-schemas.ts'
import { success } from '../openapi/schemas.ts'
import { type AdminOptions, adminErrors } from './admin-context.ts'

export const EXAMPLE_KEY_ID = 'key_3f9a1c0de54b7a1c'

export const SUBJECT_PARAMS = {
  account: Type.Object({ name: Type.String({ description: 'The account.', examples: ['acme'] }) }),
  job: jobIdParam,
  callback: jobIdParam,
  batch: Type.Object({
    batchId: Type.String({ description: 'The batch.', examples: [`${BATCH_PREFIX}${EXAMPLE_JOB_ID}`] }),
  }),
  token: Type.Object({
    tokenId: Type.String({
      description: 'The token ID, not the token.',
      examples: ['tok_3f9a1c0de54b7a1c'],
    }),
  }),
  key: Type.Object({
    keyId: Type.String({ description: 'The key ID, not the key.', examples: [EXAMPLE_KEY_ID] }),
  }),
} as const

const LOG_FIELDS = {
  account: 'account',
  jobId: 'job_id',
  keyId: 'key_id',
  tokenId: 'token_id',
  batchId: 'batch_id',
} as const

export function actionRoutes(
  app: FastifyInstance,
  options: AdminOptions,
  actions: readonly AnyAction[],
): void {
  for (const action of actions) if (action.route) actionRoute(app, options, action, action.route)
}

function actionRoute(
  app: FastifyInstance,
  { store, clock, expiry, tiers, auditLog, onCancelled, makeReruns, onAction }: AdminOptions,
  action: AnyAction,
  route: ActionRoute<unknown, unknown>,
): void {
  const { method, path, checkBody } = route
  const fields = route.takesFields === false ? null : fieldsOf(action)
  const inQuery = method === 'delete'
  const tools: ActionTools = {
    store,
    clock,
    expiry,
    tiers,
    makeReruns,
    onProgress: () => void onCancelled(),
  }
  app.route({
    method,
    url: path,
    config: { adminAction: true },
    schema: schemaOf(action, route, fields),
    preValidation: (request, reply, done) => {
      const wrong = checkBody?.(request.body) ?? null
      if (wrong !== null) return done(invalid(wrong))
      if (fields && !inQuery && !isBodyRequired(fields)) return fillMissingBody(request, reply, done)
      done()
    },
    handler: async (request, reply) => {
      const subject = subjectOf(action, request)
      const given = inQuery ? flagsIn(fields, request.query) : fields && request.body
      const input: AnyInput = { ...(given as object | null), ...subject }
      const wrong = action.check?.(input)
      if (wrong) throw errorOf(wrong)
      const result = await auditLog.perform(auditName(request), action, input, tools)
      if (result instanceof Refusal) throw errorOf(result)
      if (action.cancels) await onCancelled(subject.jobId)
      if (subject.jobId !== undefined) request.jobIds = [subject.jobId]
      const named = Object.entries(LOG_FIELDS).flatMap(([field, name]) =>
        field in subject ? [[name, input[field]] as const] : [],
      )
      onAction({
        what: action.whatOf?.(input) ?? action.what,
        details: { ...Object.fromEntries(named), ...action.log?.(input, result) },
        requestId: request.id,
        from: addressOf(request),
        operator: request.admin.name ?? operatorOf(request),
      })
      const shortfall = action.shortfall?.(input, result)
      if (shortfall) throw errorOf(shortfall)
      const { message = route.success, data, download } = route.answer(result, input)
      if (download) return sendDownload(reply, download)
      const dataJson = typeof data === 'string' ? data : JSON.stringify(data)
      return sendData(reply, route.status ?? 200, message, dataJson)
    },
  })
}

const lines = (description: string) => ({
  description,
  content: { 'application/jsonl': { schema: { type: 'string', format: 'binary' } } },
})

function sendDownload(reply: FastifyReply, { name, bytes, pieces }: Download): FastifyReply {
  return reply
    .header('content-type', 'application/jsonl')
    .header('content-disposition', `attachment; filename="${name}"`)
    .header('content-length', bytes)
    .send(Readable.from(pieces, { objectMode: false }))
}

function schemaOf(
  { about }: AnyAction,
  route: ActionRoute<unknown, unknown>,
  fields: JsonObject | null,
): FastifySchema {
  const { method, operationId, summary, description, status = 200, data, conflicts } = route
  const statuses = [
    400,
    403,
    ...(about === null ? [] : [404]),
    ...(conflicts ? [409] : []),
    ...(method === 'get' ? [] : [413, 415]),
  ]
  return {
    operationId,
    summary,
    description,
    headers: operatorHeader,
    ...(about && { params: SUBJECT_PARAMS[about] }),
    ...(fields && (method === 'delete' ? { querystring: queryOf(fields) } : { body: fields })),
    response: {
      [status]: data ? success(route.success, data) : lines(route.success),
      ...adminErrors(...statuses),
    },
  }
}

/** Returns null if the action has no fields. */
function fieldsOf({ fields }: AnyAction): (JsonObject & { readonly properties: JsonObject }) | null {
  const { properties } = fields
  return isObject(properties) && Object.keys(properties).length > 0 ? { ...fields, properties } : null
}

/** Converts Boolean fields to query parameters, which are `true` if absent. */
function queryOf({ properties, required: _required, ...schema }: JsonObject): JsonObject {
  const flag = ({ description }: Schema) => Type.Optional(Type.Enum(['true', 'false'], { description }))
  return { ...schema, properties: mapValues(properties as JsonObject, (field) => flag(field as Schema)) }
}

function flagsIn(fields: JsonObject | null, query: unknown): JsonObject {
  const given = query as JsonObject
  const names = Object.keys((fields?.properties ?? {}) as JsonObject)
  return Object.fromEntries(names.map((name) => [name, given[name] !== 'false']))
}

/** Reads the subject from the path, as an object such as `{ jobId }`. Throws 404 for a text that cannot be its name or ID. */
function subjectOf({ about }: AnyAction, { params }: FastifyRequest): Readonly<Record<string, string>> {
  if (about === null) return {}
  const { field, read, unknown } = SUBJECTS[about]
  const [text = ''] = Object.values(params as Readonly<Record<string, string>>)
  const subject = read(text)
  if (subject === null) throw errorOf(unknown(text))
  return { [field]: subject }
}

/** Several operators may share the server's own admin token. This header then has the operator's name. */
const HEADER = 'x-parley-operator'

const operatorHeader = Type.Object({
  [HEADER]: Type.Optional(
    Type.String({
      description: `The name of the operator, for the audit log: 1 to ${MAX_CHARACTERS} characters, without control characters. The name is not verified. A token that operators created has a name of its own, which is used instead.`,
      examples: ['alice'],
    }),
  ),
})

/** Returns null if the request has no such header. Throws 400 if the name is not valid. */
function operatorOf(request: FastifyRequest): string | null {
  const given = request.headers[HEADER]
  if (given === undefined) return null
  const name = textOf(String(given)).trim()
  if (!isOperatorName(name)) {
    throw invalid(`${HEADER}: must be 1 to ${MAX_CHARACTERS} characters, without control characters`)
  }
  return name
}

/** The dashboard sends the header as UTF-8. Other clients may send it as Latin-1. */
function textOf(bytes: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes, 'latin1'))
  } catch {
    return bytes
  }
}

/** Returns the text that the audit log records as `who`. */
function auditName(request: FastifyRequest): string {
  const { name } = request.admin
  const who = name === null ? (operatorOf(request) ?? 'admin token') : `token ${name}`
  return `${who} from ${addressOf(request)} (admin API)`
}

const ERRORS: {
  readonly [Kind in RefusalReason['kind']]: (reason: Extract<RefusalReason, { kind: Kind }>) => HttpError
} = {
  'no such account': noSuchAccount,
  'no such job': noSuchJob,
  'no such callback': noSuchCallback,
  'no such key': noSuchKey,
  'invalid account name': ({ rule }) => invalid(`account: ${rule}`),
  'invalid webhook URL': ({ rule }) => invalid(`url: ${rule}`),
  'no such token': noSuchToken,
  'token name taken': ({ name }) => tokenNameTaken(name),
  'key not active': keyNotActive,
  'unknown tier': ({ tiers }) => invalid(`tier: must be one of ${tiers.join(', ')}`),
  'tier required': () => invalid('tier: is required for a new account'),
  'other tier': ({ account, tier }) => otherTier(account, tier),
  'account still used': ({ jobs }) => accountStillUsed(jobs),
  'no such batch': noSuchBatch,
  'no such file': noSuchBatchFile,
  'batch ended': batchEnded,
  'job ended': jobEnded,
  'job not ended': jobNotEnded,
  'callback in progress': callbackInProgress,
  'not rerun': ({ why }) => notRerun(why),
  'no filter': () => invalid('must have at least one of account, error_code, model, from and status'),
  'not scrubbed': ({ why }) => notScrubbed(why),
}

function errorOf({ reason }: Refusal): HttpError {
  const error = ERRORS[reason.kind] as (reason: RefusalReason) => HttpError
  return error(reason)
}
