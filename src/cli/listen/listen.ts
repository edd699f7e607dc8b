/** `parley listen` receives callbacks on a developer's machine, verifies and prints them. */
import { existsSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { loadDatabaseUrl } from '../../config/file.ts'
import { singleFlight } from '../../lookup-cache.ts'
import { secretsInForce } from '../../net/signing-secrets.ts'
import { isPostgres, lookUpSecrets, sqlitePath } from '../../store/open.ts'
import { databaseName } from '../database.ts'
import { CommandError, printError, printLine } from '../input-output.ts'
import type { DefaultOptions } from '../options.ts'
import { onShutdownSignal } from '../shutdown-signals.ts'
import { createReceiver, type Delivery, deliveryJson, deliveryText, shown, timeOf } from './receive.ts'
import { type FoundSecrets, isSecret, type SecretSource, Verifier } from './verify.ts'

/** Callbacks contain data of callers, so only programs on this machine may connect. */
const HOST = '127.0.0.1'
const SECRET_VARIABLE = 'PARLEY_CALLBACK_SECRET'
/** With --fail-first, failures have this status unless --status is given. */
const DEFAULT_FAILURE_STATUS = 500

export interface ListenOptions extends DefaultOptions {
  readonly port: number
  readonly secret?: string
  readonly account: string
  readonly status?: number
  readonly retryAfter?: number
  readonly failFirst?: number
}

export async function listen(options: ListenOptions): Promise<void> {
  const { status, failFirst, retryAfter, json } = options
  const verifier = await Verifier.of(secretSource(options))
  const print = json ? printError : printLine
  const server = createReceiver({
    verifier,
    failures: {
      status: status ?? DEFAULT_FAILURE_STATUS,
      first: failFirst ?? (status === undefined ? 0 : Number.POSITIVE_INFINITY),
      retryAfterS: retryAfter ?? null,
    },
    onDelivery: (delivery: Delivery) => printLine(json ? deliveryJson(delivery) : deliveryText(delivery)),
    onRejection: ({ status, why, method, path }) =>
      print(`${timeOf(Date.now())}  rejected with ${status}: ${shown(`${method} ${path}`)}: ${shown(why)}`),
  })
  const url = await start(server, options.port)
  print(introduction(url, verifier))
  await stopped(server)
}

function secretSource({ secret, account, config }: ListenOptions): SecretSource {
  if (secret !== undefined) return givenSecret(secret, '--secret')
  const fromEnvironment = process.env[SECRET_VARIABLE]
  if (!fromEnvironment) return accountSecrets(loadDatabaseUrl(process.env, config), account)
  if (!isSecret(fromEnvironment)) {
    throw new CommandError(
      `${SECRET_VARIABLE}: must be whsec_ followed by base64. \`parley accounts secret NAME\` prints the secret.`,
    )
  }
  return givenSecret(fromEnvironment, SECRET_VARIABLE)
}

/** @param origin where the user passed the secret, such as `--secret` */
function givenSecret(secret: string, origin: string): SecretSource {
  const found = { secrets: [secret], says: `the secret of ${origin}` }
  return { look: async () => found }
}

/** Reads the account's secrets without creating a database or updating its schema. */
function accountSecrets(databaseUrl: string, account: string): SecretSource {
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
  return { look: singleFlight(look) }
}

function introduction(url: string, { secrets: { secrets, says } }: Verifier): string {
  const verifying = secrets.length > 0 ? `Verifying with ${says}.` : `Callbacks are not verified: ${says}.`
  return `Parley listens for callbacks on ${url}

Use this URL, with any path, as the callback_url of a batch element:
  "callback": { "callback_url": "${url}/hook" }
Allow loopback addresses in the server's parley.config.json:
  "callbacks": { "allow_networks": ["127.0.0.0/8"] }
${verifying}
`
}

async function start(server: Server, port: number): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen(port, HOST, resolve)
  try {
    await promise
  } catch (error) {
    const { code, message } = error as Error & { code?: string }
    throw new CommandError(
      code === 'EADDRINUSE'
        ? `Port ${port} on ${HOST} is in use. Stop the program that uses it, or pass another --port (0 picks a free one).`
        : `parley listen cannot listen on ${HOST}:${port}: ${message}`,
    )
  }
  return `http://${HOST}:${(server.address() as AddressInfo).port}`
}

/** Resolves when the server has closed, because of a shutdown signal or because standard output was closed. */
function stopped(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const stop = () => {
      server.close(() => resolve())
      server.closeAllConnections()
    }
    onShutdownSignal(stop)
    process.stdout.on('error', stop)
  })
}
