/** The route that lists the audit log. The released field for its entries is `acts`. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { auditEntryView } from '../../admin/audit-entry-view.ts'
import { readJobId } from '../../job/job-id.ts'
import { sendData } from '../envelope.ts'
import { invalid } from '../errors.ts'
import { EXAMPLE_JOB_ID } from '../openapi/examples.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { accountName, adminErrors, LIMIT, limit, more, next, orNull, strict, unixTime } from './shapes.ts'

const filter = Type.Object(
  {
    account: Type.Optional(accountName),
    before: Type.Optional(
      Type.String({
        description: 'Only entries before this ID: the `next` of the previous page.',
        examples: [EXAMPLE_JOB_ID],
      }),
    ),
    limit,
  },
  strict,
)

const entry = Type.Object({
  id: Type.String(),
  at: unixTime('When the action started'),
  who: Type.String({
    description: 'For example `alice from 10.0.0.7 (admin API)` or `root@db1 (command line)`.',
  }),
  what: Type.String({ description: 'For example `cancel a job`.' }),
  account: orNull(Type.String()),
  target: Type.Union([Type.String(), Type.Null()], {
    description: 'The ID of the job or key that the action was about, if any.',
  }),
  details: Type.Object(
    {},
    { additionalProperties: true, description: 'Never includes job contents or secrets.' },
  ),
  outcome: Type.Union([Type.String(), Type.Null()], {
    description: 'The result. Null while the action is in progress, and also if its process was killed.',
  }),
})

const page = Type.Object({
  acts: Type.Array(entry, { description: 'Audit log entries, newest first.' }),
  more,
  next: next('before'),
})

export function auditRoute(app: FastifyInstance, { store }: AdminContext): void {
  app.get<{ Querystring: Static<typeof filter> }>(
    '/audit',
    {
      schema: {
        operationId: 'listAuditLog',
        summary: 'List the audit log, newest first',
        description:
          'Who did what to which job, key or account, and with what result: through this API, the dashboard or the command line.',
        querystring: filter,
        response: { 200: success('A page of audit log entries.', page), ...adminErrors(400) },
      },
    },
    async ({ query }, reply) => {
      const { account } = query
      const before = query.before === undefined ? undefined : readJobId(query.before)
      if (before === null) throw invalid('before: must be the ID of an audit log entry')
      const most = query.limit ?? LIMIT.default
      const found = await store.listAuditEntries({
        ...(account !== undefined && { account }),
        ...(before !== undefined && { beforeEntryId: before }),
        limit: most + 1,
      })
      const entries = found.slice(0, most)
      const hasMore = found.length > most
      const data = {
        acts: entries.map(auditEntryView),
        more: hasMore,
        next: hasMore ? (entries.at(-1)?.id ?? null) : null,
      }
      return sendData(reply, 200, `${entries.length} entries.`, JSON.stringify(data))
    },
  )
}
