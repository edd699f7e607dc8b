/** Declares the admin actions on admin tokens. The audit log records the ID and the name of a token, but not the token. */
import { randomBytes } from 'node:crypto'
import { Type } from '../../typed-schema.ts'
import { adminAction } from '../action.ts'
import { hashAdminToken, makeAdminToken, newToken } from '../admin-tokens.ts'
import { strict, wholeSeconds } from '../fields.ts'
import { refusals } from '../refusals.ts'

const DAY_MS = 86_400_000
const MOST_DAYS = 36_500

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern is about control characters
const NAME = /^[^\x00-\x1f\x7f-\x9f]{1,64}$/u

const createToken = adminAction({
  what: 'make an admin token',
  about: null,
  fields: Type.Object(
    {
      name: Type.String({
        pattern: NAME.source,
        description: 'Who or what will use it, for the audit log: at most 64 characters in one line.',
      }),
      read_only: Type.Optional(
        Type.Boolean({
          description: 'Whether the token allows only reading, without contents of jobs. False if absent.',
        }),
      ),
      expires_days: Type.Optional(
        Type.Number({
          exclusiveMinimum: 0,
          maximum: MOST_DAYS,
          description: 'Days until it expires. If absent, it does not expire.',
        }),
      ),
    },
    { ...strict, examples: [{ name: 'alice' }, { name: 'grafana', read_only: true, expires_days: 365 }] },
  ),
  details: ({ name, read_only = false, expires_days = null }) => ({ name, read_only, expires_days }),
  run: async ({ name, read_only: readOnly = false, expires_days: days }, { store, clock }) => {
    const token = makeAdminToken()
    const id = `tok_${randomBytes(8).toString('hex')}`
    const createdAtMs = clock.nowMs()
    const expiresAtMs = days === undefined ? null : createdAtMs + Math.round(days * DAY_MS)
    const hash = hashAdminToken(token)
    const result = await store.createAdminToken({ id, name, hash, readOnly, createdAtMs, expiresAtMs })
    if (result === 'name taken') return refusals.tokenNameTaken(name)
    return { id, name, read_only: readOnly, token, expires_at: wholeSeconds(expiresAtMs) }
  },
  outcome: ({ id }) => `made ${id}`,
  log: (_input, { id, name }) => ({ token_id: id, name }),
  route: {
    method: 'post',
    path: '/tokens',
    operationId: 'createAdminToken',
    summary: 'Create an admin token',
    description:
      'Only this response contains the token, because the database stores just its hash. The audit log names it in each action.',
    status: 201,
    success: 'The token.',
    data: newToken,
    conflicts: true,
    answer: (created) => ({ message: 'This is the token. It cannot be shown again.', data: created }),
  },
  command: {
    name: 'tokens create',
    description: 'create and print an admin token for one operator or program',
    arguments: { name: ['<name>', 'who or what will use it; the audit log shows it'] },
    options: {
      read_only: ['--read-only', 'allow only reading, without contents of jobs'],
      expires_days: ['--expires <days>', 'days until it expires (default: never)'],
    },
    examples: ['parley tokens create alice', 'parley tokens create grafana --read-only --expires 365'],
    choose: ({ name }) =>
      NAME.test(String(name)) ? null : 'The name must be 1 to 64 characters in one line.',
  },
  // Scripts use the output, so it contains only the token.
  print: (created) => ({ json: created, text: created.token }),
})

const revokeToken = adminAction({
  what: 'revoke an admin token',
  about: 'token',
  fields: Type.Object({}),
  run: async ({ tokenId }, { store, clock }) => {
    const result = await store.revokeAdminToken(tokenId, clock.nowMs())
    return result === 'unknown' ? refusals.noSuchToken(tokenId) : result
  },
  outcome: (result) => result,
  route: {
    method: 'post',
    path: '/tokens/:tokenId/revoke',
    operationId: 'revokeAdminToken',
    summary: 'Revoke an admin token permanently',
    description:
      'Every node rejects the token within a few seconds. Revoking it a second time changes nothing.',
    success: 'The token was revoked.',
    data: Type.Object({ id: Type.String(), revoked: Type.Literal(true) }),
    answer: (result, { tokenId }) => ({
      message:
        result === 'revoked'
          ? 'The token was revoked. Every node rejects it within a few seconds.'
          : 'The token had already been revoked.',
      data: { id: tokenId, revoked: true },
    }),
  },
  command: {
    name: 'tokens revoke',
    description: 'revoke an admin token; a running server rejects it within a few seconds',
    arguments: { tokenId: ['<token-id>', 'the ID that `parley tokens list` shows'] },
    examples: ['parley tokens revoke tok_3f9a1c0de54b7a1c'],
  },
  print: (result, { tokenId }) => ({
    json: { id: tokenId, revoked_now: result === 'revoked' },
    text: result === 'revoked' ? `Token ${tokenId} was revoked.` : `Token ${tokenId} was already revoked.`,
  }),
})

export const tokenActions = [createToken, revokeToken] as const
