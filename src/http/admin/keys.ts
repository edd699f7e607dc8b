/** Keys of all accounts: listed, made, and ended. */
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import { ACCOUNT_NAME, ACCOUNT_RULE, keyEndMs } from '../../accounts/issue-key.ts'
import { MOST_DAYS } from '../../accounts/key-lifetime.ts'
import { keyView, secondsOf } from '../../admin/account-view.ts'
import { makeKey, revokeKey } from '../../admin/actions/accounts.ts'
import { sendData } from '../envelope.ts'
import { invalid, noSuchKey, otherTier } from '../errors.ts'
import { exampleBodies } from '../openapi/examples.ts'
import { success } from '../openapi/schemas.ts'
import type { AdminParts } from './admin-parts.ts'
import { operatorHeader } from './operator.ts'
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

/** As `makeKeyId` makes them, and earlier or later ones may look. */
const KEY_ID = /^\w{1,64}$/

const filter = Type.Object(
  {
    account: Type.Optional(accountName),
    before: Type.Optional(
      Type.String({ pattern: KEY_ID.source, description: 'Only keys made before the one with this id.' }),
    ),
    limit,
  },
  strict,
)

const key = Type.Object({
  id: Type.String(),
  account: Type.String(),
  tier: Type.String(),
  created_at: unixTime('When it was made'),
  expires_at: unixTimeOrNull('When it ends by itself'),
  revoked_at: unixTimeOrNull('When it was revoked'),
})

const page = Type.Object({ keys: Type.Array(key, { description: 'Newest first.' }), more })

const newKey = Type.Object(
  {
    account: Type.String({ description: 'Made if it is new.' }),
    tier: Type.Enum(tierName.enum, { description: 'The tier of the account.' }),
    expires_days: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: MOST_DAYS,
        description: 'Days until it ends; without it, never.',
      }),
    ),
  },
  strict,
)

const issued = Type.Object({
  id: Type.String(),
  key: Type.String({ description: 'Shown this once.' }),
  account: Type.String(),
  tier: Type.String(),
  expires_at: unixTimeOrNull('When it ends by itself'),
})

export function keyRoutes(app: FastifyInstance, parts: AdminParts): void {
  app.get<{ Querystring: Static<typeof filter> }>(
    '/keys',
    {
      schema: {
        summary: 'Keys, newest first',
        querystring: filter,
        response: { 200: success('A page of keys.', page), ...adminErrors(400) },
      },
    },
    async ({ query }, reply) => {
      const most = query.limit ?? LIMIT.default
      const { account, before } = query
      const found = await parts.store.searchKeys({
        ...(account !== undefined && { account }),
        ...(before !== undefined && { beforeKeyId: before }),
        limit: most + 1,
      })
      const data = { keys: found.slice(0, most).map(keyView), more: found.length > most }
      return sendData(reply, 200, `${data.keys.length} keys.`, JSON.stringify(data))
    },
  )
  issueRoute(app, parts)
  revokeRoute(app, parts)
}

function issueRoute(app: FastifyInstance, { store, clock, act, noteAct }: AdminParts): void {
  app.post<{ Body: Static<typeof newKey> }>(
    '/keys',
    {
      schema: {
        summary: 'Make a key, and its account if that is new',
        headers: operatorHeader,
        body: { ...newKey, examples: exampleBodies.keys },
        response: { 201: success('The key.', issued), ...adminErrors(400, 409, 413, 415) },
      },
    },
    async (request, reply) => {
      const { account, tier, expires_days: expiresDays = null } = request.body
      if (!ACCOUNT_NAME.test(account)) throw invalid(`account: ${ACCOUNT_RULE}`)
      const wanted = { account, tier, expiresDays, nowMs: clock.nowMs() }
      const made = await act(request, makeKey(store, wanted))
      if (made.kind === 'other tier') throw otherTier(account, made.tier)
      noteAct(request, 'make a key', { key_id: made.keyId, account, tier })
      const expiresAt = secondsOf(keyEndMs(wanted))
      const data = { id: made.keyId, key: made.key, account, tier, expires_at: expiresAt }
      return sendData(reply, 201, 'This is the key; it is shown only now.', JSON.stringify(data))
    },
  )
}

function revokeRoute(app: FastifyInstance, { store, clock, act, noteAct }: AdminParts): void {
  app.post<{ Params: { keyId: string } }>(
    '/keys/:keyId/revoke',
    {
      schema: {
        summary: 'End a key for good',
        headers: operatorHeader,
        params: Type.Object({ keyId: Type.String({ description: 'Its id; the key itself is none.' }) }),
        response: {
          200: success('It is revoked.', Type.Object({ id: Type.String(), revoked: Type.Literal(true) })),
          ...adminErrors(400, 404, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const { keyId } = request.params
      const result = KEY_ID.test(keyId) ? await act(request, revokeKey(store, clock, keyId)) : 'unknown'
      if (result === 'unknown') throw noSuchKey()
      noteAct(request, 'revoke a key', { key_id: keyId })
      const message =
        result === 'revoked'
          ? 'The key is revoked; every node knows within seconds.'
          : 'The key was revoked before.'
      return sendData(reply, 200, message, JSON.stringify({ id: keyId, revoked: true }))
    },
  )
}
