/**
 * Finds the secret that verifies callbacks: given by the user, or looked up in the database. A lookup changes nothing: it
 * neither creates a database nor migrates its schema.
 */
import { existsSync } from 'node:fs'
import { secretsInForce } from '../../net/signing-secrets.ts'
import { isPostgres, lookUpSecrets, sqlitePath } from '../../store/open.ts'
import { databaseName } from '../database.ts'

/** If `secrets` is empty, nothing can be verified, and `says` explains why and what to do. */
export interface FoundSecrets {
  readonly secrets: readonly string[]
  /** Describes where the secret comes from. */
  readonly says: string
}

/** `look` never rejects. Later calls can return other secrets, for example after the secret was rotated. */
export interface SecretSource {
  look(): Promise<FoundSecrets>
}

/** @param origin where the user set it, for example `--secret` */
export function givenSecret(secret: string, origin: string): SecretSource {
  const found = { secrets: [secret], says: `the secret of ${origin}` }
  return { look: async () => found }
}

export function accountSecrets(databaseUrl: string, account: string): SecretSource {
  const database = databaseName(databaseUrl)
  const none = (why: string): FoundSecrets => ({
    secrets: [],
    says: `${why}. Pass the secret with --secret or PARLEY_CALLBACK_SECRET; on the server, \`parley accounts secret NAME\` prints it`,
  })
  const look = async (): Promise<FoundSecrets> => {
    if (!isPostgres(databaseUrl) && !existsSync(sqlitePath(databaseUrl))) {
      return none(`there is no database ${database}`)
    }
    try {
      const secrets = await lookUpSecrets(databaseUrl, account)
      if (secrets === null)
        return none(`there is no account ${account} in ${database} (pass --account for another one)`)
      const says = `the secret of account ${account} in ${database}`
      return { secrets: secretsInForce(secrets, Date.now()), says }
    } catch (error) {
      const { message, code } = error as Error & { code?: string }
      return none(`the database ${database} could not be read: ${message || code}`)
    }
  }
  let inProgress: Promise<FoundSecrets> | null = null
  return {
    look() {
      inProgress ??= look().finally(() => {
        inProgress = null
      })
      return inProgress
    },
  }
}
