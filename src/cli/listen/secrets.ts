/**
 * Where the secret comes from that arriving callbacks are held against: given by the user, or the account's, looked up in
 * the database. Looking changes nothing: it makes no database, and does not bring the schema of one up to date.
 */
import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { Secrets } from '../../store/account-store.ts'
import { isPostgres, sqlitePath } from '../../store/open.ts'
import { SqliteAccounts } from '../../store/sqlite/accounts.ts'
import { databaseName } from '../database-name.ts'

/** As long as the server signs with the secret before a rotation, a callback that it alone signed may be under way. */
const ROTATION_MS = 86_400_000
/** How long a look may wait for the database. */
const LOOK_MS = 5000

/** With `secrets` of length 0 nothing can be verified; `says` is then why, and how to mend it. */
export interface FoundSecrets {
  readonly secrets: readonly string[]
  /** Whose secret it is, for people. */
  readonly says: string
}

/** `look` never rejects. A second call may find what a first did not: a server was started, a secret was rotated. */
export interface SecretSource {
  look(): Promise<FoundSecrets>
}

/** @param says whence the user gave it, such as `--secret` */
export function givenSecret(secret: string, says: string): SecretSource {
  const found = { secrets: [secret], says: `the secret of ${says}` }
  return { look: async () => found }
}

export function accountSecrets(databaseUrl: string, account: string): SecretSource {
  const database = databaseName(databaseUrl)
  const none = (why: string): FoundSecrets => ({
    secrets: [],
    says: `${why}. Give the secret by --secret or PARLEY_CALLBACK_SECRET; \`parley accounts secret NAME\` prints it where the server runs`,
  })
  const look = async (): Promise<FoundSecrets> => {
    if (!isPostgres(databaseUrl) && !existsSync(sqlitePath(databaseUrl))) {
      return none(`there is no database ${database}`)
    }
    try {
      const secrets = await lookUp(databaseUrl, account)
      if (secrets === null)
        return none(`there is no account ${account} in ${database} (--account names another)`)
      const says = `the secret of account ${account} in ${database}`
      return { secrets: inForce(secrets, Date.now()), says }
    } catch (error) {
      const { message, code } = error as Error & { code?: string }
      return none(`the database ${database} could not be read: ${message || code}`)
    }
  }
  let underWay: Promise<FoundSecrets> | null = null
  return {
    look() {
      underWay ??= look().finally(() => {
        underWay = null
      })
      return underWay
    },
  }
}

function inForce({ current, previous }: Secrets, nowMs: number): string[] {
  return previous && nowMs < previous.rotatedAtMs + ROTATION_MS ? [current, previous.secret] : [current]
}

async function lookUp(databaseUrl: string, account: string): Promise<Secrets | null> {
  if (isPostgres(databaseUrl)) return lookUpInPostgres(databaseUrl, account)
  const db = new DatabaseSync(sqlitePath(databaseUrl), { readOnly: true, timeout: LOOK_MS })
  try {
    return new SqliteAccounts(db).secrets(account)
  } finally {
    db.close()
  }
}

async function lookUpInPostgres(url: string, account: string): Promise<Secrets | null> {
  const [{ PostgresAccounts }, { Database }] = await Promise.all([
    import('../../store/postgres/accounts.ts'),
    import('../../store/postgres/database.ts'),
  ])
  const database = new Database({ url, connections: 1, prepare: false, statementMs: LOOK_MS })
  try {
    return await new PostgresAccounts(database).secrets(account)
  } finally {
    await database.close()
  }
}
