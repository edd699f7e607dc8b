/** The route that returns the usage of accounts, by month and model. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { ACCOUNT_NAME } from '../../accounts/issue-key.ts'
import { usageRecordView } from '../../admin/usage-view.ts'
import { isMonth } from '../../job/month.ts'
import { MODEL_NAME } from '../../job/request.ts'
import type { UsageKey } from '../../store/usage-store.ts'
import { sendData } from '../envelope.ts'
import { invalid } from '../errors.ts'
import { success, usageSums } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { accountName, adminErrors, LIMIT, limit, more, next, strict } from './shapes.ts'

const filter = Type.Object(
  {
    account: Type.Optional(accountName),
    month: Type.Optional(Type.String({ description: 'A month in UTC, as YYYY-MM.', examples: ['2026-11'] })),
    after: Type.Optional(
      Type.String({ description: 'The `next` of the previous page.', examples: ['2026-11/acme/gpt-5-mini'] }),
    ),
    limit,
  },
  strict,
)

const page = Type.Object({
  usage: Type.Array(
    Type.Object({
      account: Type.String(),
      month: Type.String({ description: 'The month in UTC, as YYYY-MM.' }),
      model: Type.String({ description: 'The public model name that callers requested.' }),
      ...usageSums,
    }),
    { description: 'Newest month first, then by account and model.' },
  ),
  more,
  next: next('after'),
})

export function usageRoute(app: FastifyInstance, { store }: AdminContext): void {
  app.get<{ Querystring: Static<typeof filter> }>(
    '/usage',
    {
      schema: {
        operationId: 'listUsage',
        summary: 'List usage by account, month and model',
        description: 'Each job counts when it finishes, in the current month (UTC).',
        querystring: filter,
        response: { 200: success('A page of usage records.', page), ...adminErrors(400) },
      },
    },
    async ({ query }, reply) => {
      const { account, month, after } = query
      if (month !== undefined && !isMonth(month)) throw invalid('month: must be YYYY-MM')
      const most = query.limit ?? LIMIT.default
      const found = await store.listUsage({
        ...(account !== undefined && { account }),
        ...(month !== undefined && { month }),
        ...(after !== undefined && { after: readKey(after) }),
        limit: most + 1,
      })
      const usage = found.slice(0, most)
      const last = usage.at(-1)
      const hasMore = found.length > most
      const data = {
        usage: usage.map(usageRecordView),
        more: hasMore,
        next: hasMore && last ? `${last.month}/${last.account}/${last.model}` : null,
      }
      return sendData(reply, 200, `${usage.length} records.`, JSON.stringify(data))
    },
  )
}

const KEY = /^([^/]*)\/([^/]*)\/(.*)$/
const MODEL = new RegExp(MODEL_NAME)

/** The model comes last, because its name can contain slashes. */
function readKey(text: string): UsageKey {
  const [, month = '', account = '', model = ''] = KEY.exec(text) ?? []
  if (isMonth(month) && ACCOUNT_NAME.test(account) && MODEL.test(model)) return { month, account, model }
  throw invalid('after: must be the `next` of a page')
}
