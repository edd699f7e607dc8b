/** Declares the admin actions on API keys. The audit log records the ID of a key, but not the key. */

import { issueKey, keyEndMs, MOST_DAYS, rotateKey } from '../../accounts/key.ts'
import { Type } from '../../typed-schema.ts'
import { findAccount, newKey, rotatedKey } from '../account-view.ts'
import { adminAction } from '../action.ts'
import { ACCOUNT_NAME, ACCOUNT_RULE, DEFAULT_TIERS, defined, strict, wholeSeconds } from '../fields.ts'
import { refusals, unknownTier } from '../refusals.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern is about control characters
const LABEL = /^[^\x00-\x1f\x7f-\x9f]{1,100}$/u

const createKey = adminAction({
  what: 'make a key',
  about: null,
  fields: Type.Object(
    {
      account: Type.String({ description: 'The account. It is created if it does not exist.' }),
      tier: Type.Optional(
        Type.String({
          description: 'A configured tier. May be absent if the account exists.',
        }),
      ),
      label: Type.Optional(
        Type.String({
          pattern: LABEL.source,
          description: 'A name for the key: at most 100 characters in one line.',
        }),
      ),
      expires_days: Type.Optional(
        Type.Number({
          exclusiveMinimum: 0,
          maximum: MOST_DAYS,
          description: 'Days until the key expires. If absent, the key does not expire.',
        }),
      ),
    },
    {
      ...strict,
      examples: [
        { account: 'acme', tier: 'user_pro' },
        { account: 'acme' },
        { account: 'acme', tier: 'user_pro', label: 'billing', expires_days: 90 },
      ],
    },
  ),
  details: ({ tier = null, label, expires_days = null }) => ({ tier, ...defined({ label }), expires_days }),
  check: ({ account }) =>
    ACCOUNT_NAME.test(account) ? null : refusals.invalidAccountName(account, ACCOUNT_RULE),
  run: async (
    { account, tier: given, label = null, expires_days: expiresDays = null },
    { store, clock, tiers },
  ) => {
    const unknown = given === undefined ? null : unknownTier(given, await tiers())
    if (unknown) return unknown
    const tier = given ?? (await findAccount(store, account, clock.nowMs()))?.tier
    if (tier === undefined) return refusals.tierRequired(account)
    const request = { account, tier, label, expiresDays, nowMs: clock.nowMs() }
    const issued = await issueKey(store, request)
    if (issued.kind === 'other tier') return refusals.otherTier(account, issued.tier, tier)
    return { ...issued, tier, label, expiresAt: wholeSeconds(keyEndMs(request)) }
  },
  outcome: ({ keyId }) => `made ${keyId}`,
  log: ({ account }, { keyId, tier }) => ({ key_id: keyId, account, tier }),
  route: {
    method: 'post',
    path: '/keys',
    operationId: 'createKey',
    summary: 'Create a key, and its account if it does not exist',
    description:
      'Only this response contains the key, because the database stores just its hash. If the account exists, `tier` must be absent or its tier.',
    status: 201,
    success: 'The key.',
    data: newKey,
    conflicts: true,
    answer: ({ keyId, key, tier, label, expiresAt }, { account }) => ({
      message: 'This is the key. It cannot be shown again.',
      data: { id: keyId, key, account, label, tier, expires_at: expiresAt },
    }),
  },
  command: {
    name: 'keys create',
    description: 'create and print a key; the account is created if it does not exist',
    options: {
      account: ['--account <name>', 'the account that the key belongs to'],
      tier: ['--tier <tier>', 'tier of a new account', DEFAULT_TIERS],
      label: ['--label <text>', 'a name for the key, shown in lists'],
      expires_days: ['--expires <days>', 'days until the key expires (default: never)'],
    },
    required: ['account'],
    examples: [
      'parley keys create --account acme --tier user_pro --label billing',
      'PARLEY_API_KEY=$(parley keys create --account ci --tier user_go --expires 30)',
    ],
    choose: ({ label }) =>
      label === undefined || LABEL.test(String(label))
        ? null
        : '--label: must be 1 to 100 characters in one line.',
  },
  // Scripts use the output, so it contains only the key.
  print: ({ key, tier }, { account }) => ({ json: { account, tier, key }, text: key }),
})

const revokeKey = adminAction({
  what: 'revoke a key',
  about: 'key',
  fields: Type.Object({}),
  run: async ({ keyId }, { store, clock }) => {
    const result = await store.revokeKey(keyId, clock.nowMs())
    return result === 'unknown' ? refusals.noSuchKey(keyId) : result
  },
  outcome: (result) => result,
  route: {
    method: 'post',
    path: '/keys/:keyId/revoke',
    operationId: 'revokeKey',
    summary: 'Revoke a key permanently',
    description:
      'Every node rejects the key within a few seconds. Revoking it a second time changes nothing.',
    success: 'The key was revoked.',
    data: Type.Object({ id: Type.String(), revoked: Type.Literal(true) }),
    answer: (result, { keyId }) => ({
      message:
        result === 'revoked'
          ? 'The key was revoked. Every node rejects it within a few seconds.'
          : 'The key had already been revoked.',
      data: { id: keyId, revoked: true },
    }),
  },
  command: {
    name: 'keys revoke',
    description: 'revoke a key; a running server rejects it within a few seconds',
    arguments: { keyId: ['<key-id>', 'the key ID that `parley keys list` shows'] },
    examples: ['parley keys revoke key_019a…'],
  },
  print: (result, { keyId }) => ({
    json: { id: keyId, revoked_now: result === 'revoked' },
    text: result === 'revoked' ? `Key ${keyId} was revoked.` : `Key ${keyId} was already revoked.`,
  }),
})

const HOUR_MS = 3_600_000
const GRACE_HOURS = 24

const rotateOldKey = adminAction({
  what: 'rotate a key',
  about: 'key',
  fields: Type.Object(
    {
      grace_hours: Type.Optional(
        Type.Number({
          minimum: 0,
          maximum: 8760,
          default: GRACE_HOURS,
          description: `Hours during which the old key still works. ${GRACE_HOURS} if absent.`,
        }),
      ),
    },
    { ...strict, examples: [{}, { grace_hours: 1 }] },
  ),
  details: ({ grace_hours = GRACE_HOURS }) => ({ grace_hours }),
  run: async ({ keyId, grace_hours = GRACE_HOURS }, { store, clock }) => {
    const rotated = await rotateKey(store, keyId, Math.round(grace_hours * HOUR_MS), clock.nowMs())
    if (rotated.kind === 'unknown') return refusals.noSuchKey(keyId)
    if (rotated.kind === 'not active') return refusals.keyNotActive(keyId)
    const { key, newKey, oldExpiresAtMs } = rotated
    const { id, account, label, tier, expiresAtMs } = newKey
    const created = { id, key, account, label, tier, expires_at: wholeSeconds(expiresAtMs) }
    return { ...created, old_key: { id: keyId, expires_at: Math.floor(oldExpiresAtMs / 1000) } }
  },
  outcome: ({ id }) => `made ${id}`,
  log: (_input, { id, account }) => ({ new_key_id: id, account }),
  route: {
    method: 'post',
    path: '/keys/:keyId/rotate',
    operationId: 'rotateKey',
    summary: 'Replace a key by a new one',
    description:
      'Creates a key with the same account, label and lifetime. Both keys work until the old one expires after a grace time. Only this response contains the new key.',
    status: 201,
    success: 'The new key.',
    data: rotatedKey,
    conflicts: true,
    answer: (rotated) => ({
      message: 'This is the new key. It cannot be shown again. The old one works until it expires.',
      data: rotated,
    }),
  },
  command: {
    name: 'keys rotate',
    description: 'create and print a key that replaces another one, which still works for a day',
    arguments: { keyId: ['<key-id>', 'the key ID that `parley keys list` shows'] },
    options: {
      grace_hours: [
        '--grace <hours>',
        `hours during which the old key still works (default: ${GRACE_HOURS})`,
      ],
    },
    examples: ['parley keys rotate key_019a…', 'parley keys rotate key_019a… --grace 1'],
  },
  // Scripts use the output, so it contains only the key.
  print: (rotated) => ({ json: rotated, text: rotated.key }),
})

export const keyActions = [createKey, rotateOldKey, revokeKey] as const
