/**
 * Where the secret comes from that arriving callbacks are held against: given by the user, or the account's, looked up in
 * the database. Looking changes nothing: it makes no database, and does not bring the schema of one up to date.
 */
import { existsSync } from 'node:fs'
import { secretsInForce } from '../../callbacks/callback-request.ts'
import { isPostgres, lookUpSecrets, sqlitePath } from '../../store/open.ts'
import { databaseName } from '../database-name.ts'

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
      const secrets = await lookUpSecrets(databaseUrl, account)
      if (secrets === null)
        return none(`there is no account ${account} in ${database} (--account names another)`)
      const says = `the secret of account ${account} in ${database}`
      return { secrets: secretsInForce(secrets, Date.now()), says }
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
