/** Routes that list, create and revoke the API keys of all accounts. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { ACCOUNT_NAME, ACCOUNT_RULE, keyEndMs } from '../../accounts/issue-key.ts'
import { MOST_DAYS } from '../../accounts/key-lifetime.ts'
import { keyView, secondsOf } from '../../admin/account-view.ts'
import { createKeyAction, revokeKeyAction } from '../../admin/actions/keys.ts'
import { sendData } from '../envelope.ts'
import { invalid, noSuchKey, otherTier } from '../errors.ts'
import { exampleBodies } from '../openapi/examples.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminContext } from './admin-context.ts'
import { operatorHeader } from './operator-header.ts'
import {
  accountName,
  adminErrors,
  LIMIT,
  limit,
  more,
  strict,
  tierName,
  unixTime,
  unixTimeOrNull,
} from './shapes.ts'

/** Accepts more than `makeKeyId` generates, so that IDs of other versions are valid. */
const KEY_ID = /^\w{1,64}$/

const EXAMPLE_KEY_ID = 'key_3f9a1c0de54b7a1c'

const filter = Type.Object(
  {
    account: Type.Optional(accountName),
    before: Type.Optional(
      Type.String({
        pattern: KEY_ID.source,
        description: 'Only keys created before the key with this ID: the `next` of the previous page.',
        examples: [EXAMPLE_KEY_ID],
      }),
    ),
    limit,
  },
  strict,
)

const key = Type.Object({
  id: Type.String(),
  account: Type.String(),
  tier: Type.String(),
  created_at: unixTime('When it was created'),
  expires_at: unixTimeOrNull('When it expires'),
  revoked_at: unixTimeOrNull('When it was revoked'),
})

const page = Type.Object({ keys: Type.Array(key, { description: 'Newest first.' }), more })

const newKey = Type.Object(
  {
    account: Type.String({ description: 'The account. It is created if it does not exist.' }),
    tier: Type.Enum(tierName.enum, { description: 'The tier of the account.' }),
    expires_days: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: MOST_DAYS,
        description: 'Days until the key expires. If absent, the key does not expire.',
      }),
    ),
  },
  strict,
)

const issued = Type.Object({
  id: Type.String(),
  key: Type.String({ description: 'The key. It cannot be shown again.' }),
  account: Type.String(),
  tier: Type.String(),
  expires_at: unixTimeOrNull('When it expires'),
})

export function keyRoutes(app: FastifyInstance, context: AdminContext): void {
  app.get<{ Querystring: Static<typeof filter> }>(
    '/keys',
    {
      schema: {
        operationId: 'listKeys',
        summary: 'List keys, newest first',
        description: 'Includes revoked and expired keys. The keys themselves are not stored.',
        querystring: filter,
        response: { 200: success('A page of keys.', page), ...adminErrors(400) },
      },
    },
    async ({ query }, reply) => {
      const most = query.limit ?? LIMIT.default
      const { account, before } = query
      const found = await context.store.searchKeys({
        ...(account !== undefined && { account }),
        ...(before !== undefined && { beforeKeyId: before }),
        limit: most + 1,
      })
      const data = { keys: found.slice(0, most).map(keyView), more: found.length > most }
      return sendData(reply, 200, `${data.keys.length} keys.`, JSON.stringify(data))
    },
  )
  issueRoute(app, context)
  revokeRoute(app, context)
}

function issueRoute(app: FastifyInstance, { store, clock, perform, logAction }: AdminContext): void {
  app.post<{ Body: Static<typeof newKey> }>(
    '/keys',
    {
      schema: {
        operationId: 'createKey',
        summary: 'Create a key, and its account if it does not exist',
        description:
          'Only this response contains the key, because the database stores just its hash. If the account exists already, `tier` must be its tier.',
        headers: operatorHeader,
        body: { ...newKey, examples: exampleBodies.keys },
        response: { 201: success('The key.', issued), ...adminErrors(400, 409, 413, 415) },
      },
    },
    async (request, reply) => {
      const { account, tier, expires_days: expiresDays = null } = request.body
      if (!ACCOUNT_NAME.test(account)) throw invalid(`account: ${ACCOUNT_RULE}`)
      const keyRequest = { account, tier, expiresDays, nowMs: clock.nowMs() }
      const issued = await perform(request, createKeyAction(store, keyRequest))
      if (issued.kind === 'other tier') throw otherTier(account, issued.tier)
      logAction(request, 'make a key', { key_id: issued.keyId, account, tier })
      const expiresAt = secondsOf(keyEndMs(keyRequest))
      const data = { id: issued.keyId, key: issued.key, account, tier, expires_at: expiresAt }
      return sendData(reply, 201, 'This is the key. It cannot be shown again.', JSON.stringify(data))
    },
  )
}

function revokeRoute(app: FastifyInstance, { store, clock, perform, logAction }: AdminContext): void {
  app.post<{ Params: { keyId: string } }>(
    '/keys/:keyId/revoke',
    {
      schema: {
        operationId: 'revokeKey',
        summary: 'Revoke a key permanently',
        description:
          'Every node rejects the key within a few seconds. Revoking it a second time changes nothing.',
        headers: operatorHeader,
        params: Type.Object({
          keyId: Type.String({ description: 'The key ID, not the key.', examples: [EXAMPLE_KEY_ID] }),
        }),
        response: {
          200: success(
            'The key was revoked.',
            Type.Object({ id: Type.String(), revoked: Type.Literal(true) }),
          ),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { keyId } = request.params
      const result = KEY_ID.test(keyId)
        ? await perform(request, revokeKeyAction(store, clock, keyId))
        : 'unknown'
      if (result === 'unknown') throw noSuchKey()
      logAction(request, 'revoke a key', { key_id: keyId })
      const message =
        result === 'revoked'
          ? 'The key was revoked. Every node rejects it within a few seconds.'
          : 'The key had already been revoked.'
      return sendData(reply, 200, message, JSON.stringify({ id: keyId, revoked: true }))
    },
  )
}
