/** The audit log: who did what. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { actView } from '../../admin/audit-view.ts'
import { isJobId } from '../../job/job-id.ts'
import { sendData } from '../envelope.ts'
import { invalid } from '../errors.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminParts } from './admin-parts.ts'
import { accountName, adminErrors, LIMIT, limit, more, next, orNull, strict, unixTime } from './shapes.ts'

const filter = Type.Object(
  {
    account: Type.Optional(accountName),
    before: Type.Optional(
      Type.String({ description: 'Only acts before this id: `next` of the page before.' }),
    ),
    limit,
  },
  strict,
)

const act = Type.Object({
  id: Type.String(),
  at: unixTime('When it was begun'),
  who: Type.String({
    description: 'Such as `alice from 10.0.0.7 (admin API)` or `root@db1 (command line)`.',
  }),
  what: Type.String({ description: 'Such as `cancel a job`.' }),
  account: orNull(Type.String()),
  target: Type.Union([Type.String(), Type.Null()], { description: 'The job or key, where it was one.' }),
  details: Type.Object({}, { additionalProperties: true, description: 'Never contents or secrets.' }),
  outcome: Type.Union([Type.String(), Type.Null()], {
    description: 'What came of it; null while it is under way, and for ever where it was cut off.',
  }),
})

const page = Type.Object({
  acts: Type.Array(act, { description: 'Newest first.' }),
  more,
  next: next('before'),
})

export function auditRoute(app: FastifyInstance, { store }: AdminParts): void {
  app.get<{ Querystring: Static<typeof filter> }>(
    '/audit',
    {
      schema: {
        summary: 'The audit log: who did what, newest first',
        querystring: filter,
        response: { 200: success('A page of acts.', page), ...adminErrors(400) },
      },
    },
    async ({ query }, reply) => {
      const { account, before } = query
      if (before !== undefined && !isJobId(before)) throw invalid('before: must be the id of an act')
      const most = query.limit ?? LIMIT.default
      const found = await store.listActs({
        ...(account !== undefined && { account }),
        ...(before !== undefined && { beforeActId: before }),
        limit: most + 1,
      })
      const acts = found.slice(0, most)
      const hasMore = found.length > most
      const data = {
        acts: acts.map(actView),
        more: hasMore,
        next: hasMore ? (acts.at(-1)?.id ?? null) : null,
      }
      return sendData(reply, 200, `${acts.length} acts.`, JSON.stringify(data))
    },
  )
}
