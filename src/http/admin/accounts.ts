/** Routes that list accounts, set their tiers, and show or rotate their signing secrets. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { ACCOUNT_NAME } from '../../accounts/issue-key.ts'
import { accountView } from '../../admin/account-view.ts'
import { secretAction, setTierAction } from '../../admin/actions/accounts.ts'
import { makeSecret } from '../../net/signature.ts'
import { sendData } from '../envelope.ts'
import { noSuchAccount } from '../errors.ts'
import { fillMissingBody } from '../json-body.ts'
import { exampleBodies } from '../openapi/examples.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { operatorHeader } from './operator-header.ts'
import {
  adminErrors,
  caps,
  count,
  LIMIT,
  limit,
  more,
  nameParam,
  strict,
  tierName,
  unixTimeOrNull,
} from './shapes.ts'

const filter = Type.Object(
  {
    after: Type.Optional(
      Type.String({
        pattern: ACCOUNT_NAME.source,
        description: 'Only accounts after this name.',
        examples: ['acme'],
      }),
    ),
    limit,
  },
  strict,
)

const page = Type.Object({
  accounts: Type.Array(
    Type.Object({
      name: Type.String(),
      tier: Type.String(),
      keys: count,
      active_keys: Type.Integer({ description: 'Keys that are neither revoked nor expired.' }),
      secret_rotated_at: unixTimeOrNull('When its signing secret was last rotated'),
      suspended_at: unixTimeOrNull('When it was suspended'),
      ...caps,
      open_jobs: Type.Integer({ minimum: 0, description: 'Queued and running jobs.' }),
      stored_bytes: Type.Integer({ minimum: 0, description: 'Bytes stored by its jobs.' }),
    }),
    { description: 'By name.' },
  ),
  more,
})

const newTier = Type.Object({ tier: tierName }, strict)
const rotation = Type.Object(
  {
    rotate: Type.Optional(
      Type.Boolean({
        description: 'Create a new secret first. The previous secret remains valid for 24 hours.',
      }),
    ),
  },
  strict,
)

type NameParam = { Params: { name: string } }

export function accountRoutes(app: FastifyInstance, context: AdminContext): void {
  const { store, clock } = context
  app.get<{ Querystring: Static<typeof filter> }>(
    '/accounts',
    {
      schema: {
        operationId: 'listAccounts',
        summary: 'List accounts, by name',
        description:
          'Shows how many keys each account has, its caps and quotas, and how much of its quotas it uses.',
        querystring: filter,
        response: { 200: success('A page of accounts.', page), ...adminErrors(400) },
      },
    },
    async ({ query }, reply) => {
      const most = query.limit ?? LIMIT.default
      const { after } = query
      const found = await store.listAccounts({
        ...(after !== undefined && { after }),
        limit: most + 1,
        nowMs: clock.nowMs(),
      })
      const data = { accounts: found.slice(0, most).map(accountView), more: found.length > most }
      return sendData(reply, 200, `${data.accounts.length} accounts.`, JSON.stringify(data))
    },
  )
  tierRoute(app, context)
  secretRoute(app, context)
}

function tierRoute(app: FastifyInstance, { store, perform, logAction }: AdminContext): void {
  app.post<NameParam & { Body: Static<typeof newTier> }>(
    '/accounts/:name/tier',
    {
      schema: {
        operationId: 'setAccountTier',
        summary: 'Move an account to another tier',
        description:
          'The tier applies to all keys of the account. Every node applies the change within a few seconds.',
        headers: operatorHeader,
        params: nameParam,
        body: { ...newTier, examples: exampleBodies.tiers },
        response: {
          200: success('The tier was set.', Type.Object({ name: Type.String(), tier: tierName })),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const { tier } = request.body
      if (!ACCOUNT_NAME.test(name)) throw noSuchAccount()
      if (!(await perform(request, setTierAction(store, name, tier)))) throw noSuchAccount()
      logAction(request, 'set the tier of an account', { account: name, tier })
      const message = `The account has tier ${tier}. Every node applies the change within a few seconds.`
      return sendData(reply, 200, message, JSON.stringify({ name, tier }))
    },
  )
}

function secretRoute(app: FastifyInstance, { store, clock, perform, logAction }: AdminContext): void {
  app.post<NameParam & { Body: Static<typeof rotation> }>(
    '/accounts/:name/secret',
    {
      preValidation: fillMissingBody,
      schema: {
        operationId: 'getAccountSecret',
        summary: "Show or rotate the secret that signs an account's callbacks; each access is logged",
        description:
          'With `rotate`, a new secret is created first. For 24 hours, callbacks are signed with both the new and the previous secret.',
        headers: operatorHeader,
        params: nameParam,
        body: { ...rotation, examples: exampleBodies.rotations },
        response: {
          200: success('The secret.', Type.Object({ secret: Type.String() })),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const { rotate = false } = request.body
      if (!ACCOUNT_NAME.test(name)) throw noSuchAccount()
      const secrets = await perform(request, secretAction(store, clock, name, rotate ? makeSecret() : null))
      if (!secrets) throw noSuchAccount()
      logAction(request, rotate ? 'rotate a secret' : 'look at a secret', { account: name })
      const message = rotate
        ? 'This is the new secret. For 24 hours, callbacks are signed with the previous secret as well.'
        : 'This is the secret.'
      return sendData(reply, 200, message, JSON.stringify({ secret: secrets.current }))
    },
  )
}
