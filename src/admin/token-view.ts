/** Schemas of the admin tokens that operators create, for the admin API, the dashboard and commands. */
import type { AdminTokenRecord } from '../store/account-store.ts'
import { type Static, Type } from '../typed-schema.ts'
import { unixTime, unixTimeOrNull, wholeSeconds } from './fields.ts'

const shownToken = {
  id: Type.String(),
  name: Type.String({ description: 'The operator or program that uses the token; the audit log shows it.' }),
  read_only: Type.Boolean({
    description: 'Whether the token allows only reading, without contents of jobs, secrets and keys.',
  }),
  expires_at: unixTimeOrNull('When it expires'),
}

export const tokenList = Type.Object({
  tokens: Type.Array(
    Type.Object({
      ...shownToken,
      created_at: unixTime('When it was created'),
      revoked_at: unixTimeOrNull('When it was revoked'),
    }),
  ),
})
type ListedToken = Static<typeof tokenList>['tokens'][number]

export const newToken = Type.Object({
  ...shownToken,
  token: Type.String({ description: 'The token. It cannot be shown again.' }),
})

export function tokenView(record: AdminTokenRecord): ListedToken {
  const { id, name, readOnly, createdAtMs, expiresAtMs, revokedAtMs } = record
  return {
    id,
    name,
    read_only: readOnly,
    created_at: Math.floor(createdAtMs / 1000),
    expires_at: wholeSeconds(expiresAtMs),
    revoked_at: wholeSeconds(revokedAtMs),
  }
}
