/** Serves the routes of the admin API that list and show what the database stores. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import {
  account,
  accountList,
  accountView,
  findAccount,
  keyList,
  keyView,
  usageList,
  usageRowView,
} from '../../admin/account-view.ts'
import { KEY_ID } from '../../admin/action.ts'
import { tokenList, tokenView } from '../../admin/admin-tokens.ts'
import { auditList, auditListView } from '../../admin/audit-entry.ts'
import { batchDetails, batchDetailsView, batchList, batchSummaries } from '../../admin/batch-view.ts'
import {
  ACCOUNT_NAME,
  accountName,
  callbackState,
  defined,
  jobStatus,
  LIMIT,
  limit,
  modelName,
  strict,
} from '../../admin/fields.ts'
import {
  callbackDetails,
  callbackDetailsView,
  callbackList,
  callbackView,
  jobDetails,
  jobDetailsView,
  jobList,
  jobSummaryView,
  withoutTexts,
} from '../../admin/job-view.ts'
import {
  FIRST_EVENT,
  readUsageCursor,
  readUsageEvents,
  usageCursorText,
  usageEventList,
} from '../../admin/usage-events.ts'
import { BATCH_PREFIX, readBatchId, readJobId } from '../../job/job-id.ts'
import { isMonth } from '../../job/month.ts'
import { MODEL_NAME, metadataFilter } from '../../job/request.ts'
import { MAX_SCANNED } from '../../store/chunked-search.ts'
import type { UsageKey } from '../../store/usage-store.ts'
import { type Schema, type Static, Type } from '../../typed-schema.ts'
import { sendData } from '../envelope.ts'
import { invalid, noSuchAccount, noSuchBatch, noSuchCallback, noSuchJob } from '../errors.ts'
import { EXAMPLE_JOB_ID } from '../openapi/examples.ts'
import { success } from '../openapi/schemas.ts'
import { EXAMPLE_KEY_ID, SUBJECT_PARAMS } from './action-routes.ts'
import { type AdminOptions, adminErrors } from './admin-context.ts'

interface Read<Params, Query> {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly params?: Params
  readonly querystring?: Query
  readonly success: string
  readonly data: Schema
  /** The data of the response is a value or JSON text. */
  readonly read: (
    request: ReadRequest<Params, Query>,
  ) => Promise<readonly [message: string, data: object | string]>
}

interface ReadRequest<Params, Query> {
  readonly params: Static<Params>
  readonly query: Static<Query>
  readonly readOnly: boolean
  /** Sets the job ID of the request's line in the log. */
  readonly setJobId: (jobId: string) => void
}

export function readRoute<Params extends Schema, Query extends Schema>(
  app: FastifyInstance,
  path: string,
  { read, success: description, data, ...schema }: Read<Params, Query>,
): void {
  const statuses = [...(schema.querystring ? [400] : []), ...(schema.params ? [404] : [])]
  app.get(
    path,
    { schema: { ...schema, response: { 200: success(description, data), ...adminErrors(...statuses) } } },
    async (request, reply) => {
      const [message, found] = await read({
        params: request.params as Static<Params>,
        query: request.query as Static<Query>,
        readOnly: request.admin.readOnly,
        setJobId: (jobId) => {
          request.jobIds = [jobId]
        },
      })
      return sendData(reply, 200, message, typeof found === 'string' ? found : JSON.stringify(found))
    },
  )
}

/** The query of a list has these fields and `limit`. */
const filter = <P extends Readonly<Record<string, Schema>>>(fields: P) =>
  Type.Object({ ...fields, limit }, strict)

const EXAMPLE_BATCH_ID = `${BATCH_PREFIX}${EXAMPLE_JOB_ID}`

const before = (description: string, example = EXAMPLE_JOB_ID) =>
  Type.Optional(Type.String({ description, examples: [example] }))

/** @param what what the ID must be, for the error message */
function idBefore(text: string | undefined, what: string): string | undefined {
  const id = text === undefined ? undefined : readJobId(text)
  if (id === null) throw invalid(`before: must be ${what}`)
  return id
}

export function jobRoutes(app: FastifyInstance, { store, expiry, waitingRoute }: AdminOptions): void {
  const time = (description: string, example: number) =>
    Type.Optional(Type.Number({ minimum: 0, description, examples: [example] }))
  readRoute(app, '/jobs', {
    operationId: 'listJobs',
    summary: 'Search jobs',
    description: `Newest first. One search examines at most ${MAX_SCANNED} jobs and reports where it stopped.`,
    querystring: filter({
      account: Type.Optional(accountName),
      status: Type.Optional(jobStatus),
      model: Type.Optional(modelName),
      metadata: metadataFilter,
      from: time('Created at this Unix time (seconds) or later.', 1795219200),
      to: time('Created before this Unix time (seconds).', 1795305600),
      before: before('Only jobs before this ID: the `next` of the previous page.'),
    }),
    success: 'A page of jobs.',
    data: jobList,
    read: async ({ query: { account, status, model, metadata, from, to, ...query } }) => {
      const beforeJobId = idBefore(query.before, 'a job ID')
      const { jobs, complete, next } = await store.searchJobs({
        ...defined({ account, status, model, metadata, beforeJobId }),
        ...(from !== undefined && { fromMs: from * 1000 }),
        ...(to !== undefined && { toMs: to * 1000 }),
        limit: query.limit ?? LIMIT.default,
        expiry: expiry(),
      })
      return [`${jobs.length} jobs.`, { jobs: jobs.map(jobSummaryView), more: next !== null, complete, next }]
    },
  })
  readRoute(app, '/jobs/:jobId', {
    operationId: 'getJob',
    summary: 'Show a job without its contents',
    description: 'Shows its timeline, its callback, and the model servers it is waiting for.',
    params: SUBJECT_PARAMS.job,
    success: 'The job.',
    data: jobDetails,
    read: async ({ params, setJobId, readOnly }) => {
      const jobId = readJobId(params.jobId)
      const found = jobId === null ? null : await store.findJob(jobId, expiry())
      if (jobId === null || !found) throw noSuchJob()
      setJobId(jobId)
      const callback = found.callback === null ? null : await store.findCallback(jobId)
      const view = jobDetailsView(found, callback, waitingRoute)
      return [
        'The job.',
        readOnly ? { ...view, callback: view.callback && withoutTexts(view.callback) } : view,
      ]
    },
  })
}

export function batchRoutes(app: FastifyInstance, { store, clock }: AdminOptions): void {
  readRoute(app, '/batches', {
    operationId: 'listAllBatches',
    summary: 'List batches, newest first',
    description: "Batches of lines in a file, which callers create with OpenAI's API.",
    querystring: filter({
      account: Type.Optional(accountName),
      open: Type.Optional(Type.Enum(['true'], { description: 'Only batches that have not ended.' })),
      before: before('Only batches before this ID: the `next` of the previous page.', EXAMPLE_BATCH_ID),
    }),
    success: 'A page of batches.',
    data: batchList,
    read: async ({ query: { account, open, ...query } }) => {
      const afterBatchId = query.before === undefined ? undefined : readBatchId(query.before)
      if (afterBatchId === null) throw invalid('before: must be a batch ID')
      const { rows, more } = await pageOf(query, (limit) =>
        store.listBatches({ ...defined({ account, afterBatchId }), onlyOpen: open === 'true', limit }),
      )
      const batches = await batchSummaries(rows, clock.nowMs(), nextTurn)
      const next = more ? (batches.at(-1)?.batch_id ?? null) : null
      return [`${batches.length} batches.`, { batches, more, next }]
    },
  })
  readRoute(app, '/batches/:batchId', {
    operationId: 'getAnyBatch',
    summary: 'Show a batch without the contents of its files',
    description: 'Shows its progress, errors, running lines, files and usage.',
    params: SUBJECT_PARAMS.batch,
    success: 'The batch.',
    data: batchDetails,
    read: async ({ params }) => {
      const batchId = readBatchId(params.batchId)
      const found = batchId === null ? null : await store.findAnyBatch(batchId)
      if (!found) throw noSuchBatch()
      const { account, inputFileId, outputFileId, errorFileId } = found
      const nowMs = clock.nowMs()
      const fileOf = async (id: string | null) => (id === null ? null : store.findFile(account, id, nowMs))
      const [input, output, errors] = await Promise.all([inputFileId, outputFileId, errorFileId].map(fileOf))
      const lines = await store.linesOfBatch(found.id)
      const parts = { lines, input: input ?? null, output: output ?? null, errors: errors ?? null }
      return ['The batch.', batchDetailsView(found, parts, nowMs)]
    },
  })
}

export function callbackRoutes(app: FastifyInstance, { store }: AdminOptions): void {
  readRoute(app, '/callbacks', {
    operationId: 'listCallbacks',
    summary: 'List callbacks, newest job first',
    description: `One search examines at most ${MAX_SCANNED} callbacks and reports where it stopped.`,
    querystring: filter({
      state: Type.Optional(callbackState),
      account: Type.Optional(accountName),
      before: before('Only callbacks of jobs before this ID: the `next` of the previous page.'),
    }),
    success: 'A page of callbacks.',
    data: callbackList,
    read: async ({ query: { state, account, ...query }, readOnly }) => {
      const beforeJobId = idBefore(query.before, 'a job ID')
      const { items, complete, next } = await store.searchCallbacks({
        ...defined({ state, account, beforeJobId }),
        limit: query.limit ?? LIMIT.default,
      })
      const views = items.map(callbackView)
      return [
        `${items.length} callbacks.`,
        { callbacks: readOnly ? views.map(withoutTexts) : views, more: next !== null, complete, next },
      ]
    },
  })
  readRoute(app, '/callbacks/:jobId', {
    operationId: 'getCallback',
    summary: 'Show a callback with all of its attempts',
    description:
      'Lists the time, status, duration, error and first 1 KiB of the response of each attempt. The values of the callback headers are never shown.',
    params: SUBJECT_PARAMS.callback,
    success: 'The callback.',
    data: callbackDetails,
    read: async ({ params, setJobId, readOnly }) => {
      const jobId = readJobId(params.jobId)
      const found = jobId === null ? null : await store.findCallback(jobId)
      if (!found) throw noSuchCallback()
      setJobId(found.jobId)
      const view = callbackDetailsView(found)
      return ['The callback.', readOnly ? withoutTexts(view) : view]
    },
  })
}

/** One row more than the page holds shows whether more rows follow. */
async function pageOf<T>(
  given: { readonly limit?: number },
  read: (limit: number) => Promise<readonly T[]>,
): Promise<{ readonly rows: readonly T[]; readonly more: boolean }> {
  const most = given.limit ?? LIMIT.default
  const found = await read(most + 1)
  return { rows: found.slice(0, most), more: found.length > most }
}

export function accountsRoute(app: FastifyInstance, { store, clock }: AdminOptions): void {
  readRoute(app, '/accounts', {
    operationId: 'listAccounts',
    summary: 'List accounts, by name',
    description:
      'Shows how many keys each account has, its caps and quotas, and how much of its quotas it uses.',
    querystring: filter({
      after: Type.Optional(
        Type.String({
          pattern: ACCOUNT_NAME.source,
          description: 'Only accounts after this name.',
          examples: ['acme'],
        }),
      ),
    }),
    success: 'A page of accounts.',
    data: accountList,
    read: async ({ query: { after, ...query }, readOnly }) => {
      const nowMs = clock.nowMs()
      const { rows, more } = await pageOf(query, (limit) =>
        store.listAccounts({ ...defined({ after }), limit, nowMs }),
      )
      return [`${rows.length} accounts.`, { accounts: rows.map((row) => accountView(row, readOnly)), more }]
    },
  })
}

export function accountRoute(app: FastifyInstance, { store, clock }: AdminOptions): void {
  readRoute(app, '/accounts/:name', {
    operationId: 'getAccount',
    summary: 'Show an account',
    description: 'Shows how many keys it has, its caps and quotas, and how much of its quotas it uses.',
    params: SUBJECT_PARAMS.account,
    success: 'The account.',
    data: account,
    read: async ({ params: { name }, readOnly }) => {
      const found = ACCOUNT_NAME.test(name) ? await findAccount(store, name, clock.nowMs()) : null
      if (!found) throw noSuchAccount()
      return ['The account.', accountView(found, readOnly)]
    },
  })
}

export function keysRoute(app: FastifyInstance, { store }: AdminOptions): void {
  readRoute(app, '/keys', {
    operationId: 'listKeys',
    summary: 'List keys, newest first',
    description: 'Includes revoked and expired keys. The keys themselves are not stored.',
    querystring: filter({
      account: Type.Optional(accountName),
      before: Type.Optional(
        Type.String({
          pattern: KEY_ID.source,
          description: 'Only keys created before the key with this ID: the last one of the previous page.',
          examples: [EXAMPLE_KEY_ID],
        }),
      ),
    }),
    success: 'A page of keys.',
    data: keyList,
    read: async ({ query: { account, before, ...query } }) => {
      const { rows, more } = await pageOf(query, async (limit) => {
        const found = await store.searchKeys({ ...defined({ account, beforeKeyId: before }), limit })
        if (found === null)
          throw invalid('before: this key does not exist any more; read the first page again')
        return found
      })
      return [`${rows.length} keys.`, { keys: rows.map(keyView), more }]
    },
  })
}

export function tokensRoute(app: FastifyInstance, { store }: AdminOptions): void {
  readRoute(app, '/tokens', {
    operationId: 'listAdminTokens',
    summary: 'List admin tokens, oldest first',
    description:
      'Lists the tokens that operators created, including revoked and expired ones. The tokens themselves are not stored.',
    success: 'The tokens.',
    data: tokenList,
    read: async () => {
      const tokens = await store.listAdminTokens()
      return [`${tokens.length} tokens.`, { tokens: tokens.map(tokenView) }]
    },
  })
}

export function usageRoute(app: FastifyInstance, { store, currency }: AdminOptions): void {
  readRoute(app, '/usage', {
    operationId: 'listUsage',
    summary: 'List usage by account, month and model',
    description: 'Each job counts when it finishes, in the current month (UTC).',
    querystring: filter({
      account: Type.Optional(accountName),
      month: Type.Optional(
        Type.String({ description: 'A month in UTC, as YYYY-MM.', examples: ['2026-11'] }),
      ),
      after: before('The `next` of the previous page.', '2026-11/acme/gpt-5-mini'),
    }),
    success: 'A page of usage records.',
    data: usageList,
    read: async ({ query: { account, month, after, ...query } }) => {
      if (month !== undefined && !isMonth(month)) throw invalid('month: must be YYYY-MM')
      const from = after === undefined ? undefined : readUsageKey(after)
      const { rows, more } = await pageOf(query, (limit) =>
        store.listUsage({ ...defined({ account, month, after: from }), limit }),
      )
      const last = rows.at(-1)
      const next = more && last ? `${last.month}/${last.account}/${last.model}` : null
      return [
        `${rows.length} records.`,
        { usage: rows.map(usageRowView), ...defined({ currency }), more, next },
      ]
    },
  })
}

export function usageEventsRoute(app: FastifyInstance, { store, currency, clock }: AdminOptions): void {
  readRoute(app, '/usage-events', {
    operationId: 'listUsageEvents',
    summary: 'List what each finished job used, for billing',
    description:
      'Returns one event for each finished job, roughly in the order of creation. Store `next` with the events, and continue from there: no event is missing, and none comes twice. A job appears at least a minute after its creation, and later while 256 earlier jobs (with `account`, of this account) are unfinished. Events exist as long as their jobs (`jobs.retention_seconds`, unless a job is deleted).',
    querystring: filter({
      account: Type.Optional(accountName),
      after: before('The `next` of an earlier response, for the same account.', 'AZpdPgAAcACAAAAAAAAAAA'),
    }),
    success: 'A page of usage events.',
    data: usageEventList,
    read: async ({ query: { account, after, ...query } }) => {
      const cursor = after === undefined ? FIRST_EVENT : readUsageCursor(after)
      if (cursor === null) throw invalid('after: must be the `next` of a response')
      const most = query.limit ?? LIMIT.default
      const { events, more, next } = await readUsageEvents(store, cursor, most, clock.nowMs(), account)
      const data = { events, ...defined({ currency }), more, next: usageCursorText(next) }
      return [`${events.length} events.`, data]
    },
  })
}

const USAGE_KEY = /^([^/]*)\/([^/]*)\/(.*)$/
const MODEL = new RegExp(MODEL_NAME)

/** The model comes last, because its name may contain slashes. */
function readUsageKey(text: string): UsageKey {
  const [, month = '', account = '', model = ''] = USAGE_KEY.exec(text) ?? []
  if (isMonth(month) && ACCOUNT_NAME.test(account) && MODEL.test(model)) return { month, account, model }
  throw invalid('after: must be the `next` of a page')
}

export function auditRoute(app: FastifyInstance, { store }: AdminOptions): void {
  readRoute(app, '/audit', {
    operationId: 'listAuditLog',
    summary: 'List the audit log, newest first',
    description:
      'Lists who did what to which job, key or account, with which result: through this API, the dashboard or the command line.',
    querystring: filter({
      account: Type.Optional(accountName),
      before: before('Only entries before this ID: the `next` of the previous page.'),
    }),
    success: 'A page of audit log entries.',
    data: auditList,
    read: async ({ query: { account, ...query } }) => {
      const beforeEntryId = idBefore(query.before, 'the ID of an audit log entry')
      const { rows, more } = await pageOf(query, (limit) =>
        store.listAuditEntries({ ...defined({ account, beforeEntryId }), limit }),
      )
      return [`${rows.length} entries.`, auditListView(rows, more)]
    },
  })
}
