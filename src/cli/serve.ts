/** `parley serve`: starts the server, says where it listens, and stops it in order when it is told to. */
import { issueKey } from '../accounts/issue-key.ts'
import type { Role } from '../app/role.ts'
import { createService, type Service } from '../app/service.ts'
import { type Configuration, loadConfiguration } from '../config/load.ts'
import { isPostgres } from '../store/open.ts'
import { createLog, errorFields, type Log } from '../telemetry/log.ts'
import { VERSION } from '../version.ts'
import { CommandError } from './command-error.ts'
import { printLine } from './output.ts'
import { onShutdownSignal } from './shutdown-signals.ts'

export interface ServeOptions {
  readonly config?: string
  readonly role: Role
}

/** Resolves with the exit code when the server has stopped. */
export async function serve({ config, role }: ServeOptions): Promise<number> {
  const configuration = loadConfiguration(process.env, config)
  if (role !== 'all' && !isPostgres(configuration.settings.database)) {
    throw new CommandError(
      `--role ${role} needs a database that other nodes share: set DATABASE_URL=postgres://…, or leave --role out.`,
    )
  }
  const log = createLog(configuration.logLevel)
  const onFatal = (error: Error) => {
    log.error(errorFields(error), 'the storage thread ended; Parley ends with it and is safe to start again')
    log.flush()
    process.exit(1)
  }
  endOnBugs(log)
  const service = await createService({ configuration, role, log, onFatal })
  const stopped = stopWhenTold(service, log)
  const address = await listen(service, configuration)
  // Made only now: a start that could not listen would have shown the key to nobody.
  const first = await firstKey(service)
  printLine(`Parley ${VERSION} listening on ${address}`)
  if (configuration.simulated) {
    printLine(
      'No model is configured: the built-in simulator answers. Set OPENAI_API_KEY, or see docs/settings.md.',
    )
  }
  if (service.adminTokenFile !== null) printLine(`The admin token is in ${service.adminTokenFile}`)
  if (first !== null) sayFirstKey(first, address)
  await stopped
  log.flush()
  return 0
}

async function listen(service: Service, { settings: { host, port } }: Configuration): Promise<string> {
  try {
    return await service.listen()
  } catch (error) {
    await service.stop()
    const { code } = error as { code?: string }
    if (code === 'EADDRINUSE') {
      throw new CommandError(
        `Port ${port} on ${host} is taken. Stop what uses it, or set PORT (0 picks a free one).`,
      )
    }
    if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
      throw new CommandError(`Parley cannot listen on ${host}:${port}: ${(error as Error).message}`)
    }
    throw error
  }
}

/** The first start on an empty database makes the account `default`; null on every later one. */
async function firstKey({ store }: Service): Promise<string | null> {
  if (await store.hasAccounts()) return null
  const request = { account: 'default', tier: 'user_max', expiresDays: null, nowMs: Date.now() } as const
  const issued = await issueKey(store, request)
  return issued.kind === 'issued' ? issued.key : null
}

function sayFirstKey(key: string, address: string): void {
  const body = {
    model: 'gpt-auto',
    response_format: { format: 'text' },
    messages: [{ role: 'user', content: 'Hello, Parley!' }],
  }
  printLine(`
This is the first start. The account \`default\` (tier user_max) has this API key, shown only now:

  ${key}

Try it:

curl -s ${address}/api/v1/messages -H 'x-api-key: ${key}' -H 'content-type: application/json' -d '${JSON.stringify(body)}'

Watch it at ${address}/dashboard, opened by the admin token.
`)
}

/** Resolves when the server has stopped after it was told to. */
function stopWhenTold(service: Service, log: Log): Promise<void> {
  return new Promise((resolve, reject) => {
    onShutdownSignal((why) => {
      log.info({ why }, 'stopping')
      service.stop().then(resolve, reject)
    })
  })
}

/** A bug is logged and ends the process: what it has accepted is durable and runs at the next start. */
function endOnBugs(log: Log): void {
  const end = (error: unknown) => {
    log.error(errorFields(error), 'an error that nothing expected; Parley ends and is safe to start again')
    log.flush()
    process.exit(1)
  }
  process.on('uncaughtException', end)
  process.on('unhandledRejection', end)
}
