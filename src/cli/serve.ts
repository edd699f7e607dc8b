/** `parley serve` starts the server, prints where it listens, and stops it gracefully on a shutdown signal. */
import module from 'node:module'
import { dirname } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { issueKey } from '../accounts/key.ts'
import type { Service } from '../app/service.ts'
import type { Role } from '../config/allowed-values.ts'
import { type Configuration, loadConfiguration } from '../config/load.ts'
import { maskedSettings } from '../config/masked.ts'
import type { Environment } from '../config/settings.ts'
import { isPostgres } from '../store/open.ts'
import { createLog, errorFields, type Log } from '../telemetry/log.ts'
import type { Otlp } from '../telemetry/otlp.ts'
import { VERSION } from '../version.ts'
import type { CheckedUpstream, reach } from './check/upstream.ts'
import { CommandError, printable, printLine } from './input-output.ts'
import { onShutdownSignal } from './shutdown-signals.ts'

/** The first start prints an example with this model, if the model is configured. */
const DEFAULT_MODEL = 'gpt-auto'

/** After these errors, the operator must change the host or the port, or the permissions of the server. */
const LISTEN_ERRORS: ReadonlySet<string> = new Set([
  'EACCES',
  'EADDRNOTAVAIL',
  'EINVAL',
  'ENAMETOOLONG',
  'ENOENT',
  'ENOTDIR',
  'ENOTFOUND',
])

export interface ServeOptions {
  readonly config?: string
  readonly role: Role
  readonly threads?: Configuration['settings']['threads']
}

/** Resolves with the exit code when the server has stopped. */
export async function serve({ config, role, threads }: ServeOptions): Promise<number> {
  shareCompileCache()
  const configuration = withThreads(loadConfiguration(process.env, config), threads)
  if (role !== 'all' && !isPostgres(configuration.settings.database)) {
    throw new CommandError(
      `--role ${role} needs a database that several nodes can share. Set DATABASE_URL=postgres://…, or remove --role.`,
    )
  }
  const log = createLog(configuration.logLevel)
  const onFatal = (error: Error) => {
    log.error(
      errorFields(error),
      'a thread exited unexpectedly; shutting down. Accepted jobs run after a restart',
    )
    log.flush()
    process.exit(1)
  }
  exitOnBugs(log)
  // Without this listener, the server would crash when the reader of its output exits.
  process.stdout.on('error', () => {})
  // Loading these modules takes most of the start time. The settings are read first, so that mistakes in them are reported at
  // once.
  const { createService } = await import('../app/create-service.ts')
  const otlp = await startTelemetry(process.env, log)
  const service = await createService({ configuration, role, log, onFatal, ...(otlp && { otlp }) })
  const stopped = stopOnSignal(service, log)
  const address = await listen(service, configuration)
  // Without this flag, V8 allocates some objects of each request in its old generation, because earlier objects from the same
  // code lived long. These objects keep everything that they refer to alive until the next full collection
  // (docs/internals/measurements.md). The flag is set after the modules are loaded: V8 rejects cached code if the flags have
  // changed, so loading would take longer.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // The key is printed only once, so it is created after everything that can fail.
  const first = await firstKey(service)
  printLine(`Parley ${VERSION} listening on ${address}`)
  if (configuration.simulated) reportSimulator(configuration, log)
  const stopping = new AbortController()
  // Jobs are already accepted. Awaiting this report would delay the start if a model server is slow or down.
  if (role !== 'api') void reportModelServers(configuration, process.env, log, stopping.signal)
  if (service.adminTokenFile !== null) printLine(`The admin token is in ${service.adminTokenFile}`)
  if (first !== null) printFirstKey(first, address, configuration)
  await stopped
  stopping.abort()
  const isFlushed = (await otlp?.stop()) ?? true
  log.flush()
  // A request to a telemetry collector that does not respond would keep the process alive.
  if (!isFlushed) process.exit(0)
  return 0
}

/** Returns null if the environment configures no endpoint or disables the SDK. OpenTelemetry is then not loaded. */
async function startTelemetry(env: Environment, log: Log): Promise<Otlp | null> {
  if (!env.OTEL_EXPORTER_OTLP_ENDPOINT || /^true$/i.test(env.OTEL_SDK_DISABLED ?? '')) return null
  const { startOtlp } = await import('../telemetry/otlp.ts')
  try {
    return await startOtlp(env, log)
  } catch (error) {
    throw new CommandError(error instanceof Error ? error.message : String(error))
  }
}

/** Logs it too, because with `simulator: true` the settings may look as if models were called. */
function reportSimulator({ settings: { simulator } }: Configuration, log: Log): void {
  if (simulator !== true) {
    printLine(
      'No model is configured, so the built-in simulator answers. Set OPENAI_API_KEY, or see docs/settings.md.',
    )
    return
  }
  printLine('The built-in simulator answers every job, because the setting simulator is true.')
  log.warn({}, 'the simulator answers every job, and no model server is called (simulator is true)')
}

function withThreads(configuration: Configuration, threads: ServeOptions['threads']): Configuration {
  if (threads === undefined) return configuration
  return { ...configuration, settings: { ...configuration.settings, threads } }
}

/**
 * Threads get the compile cache of `main.ts` through an environment variable. Without the cache, the storage thread would
 * compile all its files at every start.
 */
function shareCompileCache(): void {
  const folder = module.getCompileCacheDir()
  if (folder !== undefined) process.env.NODE_COMPILE_CACHE ??= dirname(folder)
}

async function listen(service: Service, { settings: { host, port } }: Configuration): Promise<string> {
  try {
    return await service.listen()
  } catch (error) {
    await service.stop()
    const { code } = error as { code?: string }
    if (code === 'EADDRINUSE' && host.startsWith('unix:')) {
      throw new CommandError(`Parley cannot listen on ${host}: ${(error as Error).message}.`)
    }
    if (code === 'EADDRINUSE') {
      throw new CommandError(
        `Port ${port} on ${host} is in use. Stop the program that uses it, or set PORT to another port (0 picks a free one).`,
      )
    }
    if (LISTEN_ERRORS.has(code ?? '')) {
      const where = host.startsWith('unix:') ? host : `${host}:${port}`
      throw new CommandError(`Parley cannot listen on ${where}: ${(error as Error).message}`)
    }
    throw error
  }
}

/** On an empty database, creates the account `default` and returns its key. Otherwise returns null. */
async function firstKey({ store }: Service): Promise<string | null> {
  if (await store.hasAccounts()) return null
  const request = { account: 'default', tier: 'user_max', expiresDays: null, nowMs: Date.now() } as const
  const issued = await issueKey(store, request)
  return issued.kind === 'issued' ? issued.key : null
}

function printFirstKey(key: string, address: string, { settings: { models } }: Configuration): void {
  const [firstModel = DEFAULT_MODEL] = Object.keys(models)
  const body = {
    model: Object.hasOwn(models, DEFAULT_MODEL) ? DEFAULT_MODEL : firstModel,
    response_format: { format: 'text' },
    messages: [{ role: 'user', content: 'Hello, Parley!' }],
  }
  printLine(`
This is the first start. It created the account \`default\` (tier user_max) with this API key, which is not shown again:

  ${key}

Try it:

curl -s ${curlTarget(address)}/api/v1/messages -H 'x-api-key: ${key}' -H 'content-type: application/json' -d '${JSON.stringify(body)}'

${isSocket(address) ? '' : `The dashboard is at ${address}/dashboard. Sign in with the admin token.\n`}`)
}

const isSocket = (address: string) => address.startsWith('unix:')

/** For a Unix socket, curl also needs a URL, which becomes the Host header. */
function curlTarget(address: string): string {
  return isSocket(address) ? `--unix-socket ${address.slice('unix:'.length)} http://localhost` : address
}

function stopOnSignal(service: Service, log: Log): Promise<void> {
  return new Promise((resolve, reject) => {
    onShutdownSignal((reason) => {
      log.info({ why: reason }, 'stopping')
      service.stop().then(resolve, reject)
    })
  })
}

/** After a bug, the state may be wrong. Accepted jobs are durable and run after the next start. */
function exitOnBugs(log: Log): void {
  const end = (error: unknown) => {
    log.error(errorFields(error), 'uncaught exception; shutting down. Accepted jobs run after a restart')
    log.flush()
    process.exit(1)
  }
  process.on('uncaughtException', end)
  process.on('unhandledRejection', end)
}

const SHOWN_MODELS = 5

/**
 * Prints a line for each upstream as soon as it responds or fails, and logs a warning for a failure. Prints nothing after the
 * signal. Never rejects, and resolves when all upstreams are done.
 */
async function reportModelServers(
  configuration: Configuration,
  env: Environment,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  if (configuration.simulated) return
  const { reach, usedUpstreams } = await import('./check/upstream.ts')
  const shown = maskedSettings(configuration.settings).upstreams
  await Promise.all(
    usedUpstreams(configuration, env).map(async (upstream) => {
      const found = await reach(upstream, 'parley-start', signal)
      if (signal.aborted) return
      const { name, models } = upstream
      const { text, isTrouble } = stateOf(found, upstream)
      const server = `Model server ${name} at ${shown[name]?.base_url}, ${modelsText([...models.keys()])}`
      printLine(printable(`${server}: ${text}`))
      if (isTrouble) log.warn({ upstream: name, why: text }, 'a model server does not respond as expected')
    }),
  )
}

interface State {
  readonly text: string
  /** A server without a list of models may work, so most errors of `GET /models` do not count. */
  readonly isTrouble: boolean
}

/** Proxies use these statuses while their server is down, and model servers while they load a model. */
const DOWN: readonly number[] = [502, 503, 504]

function stateOf(
  { listed, trouble }: Awaited<ReturnType<typeof reach>>,
  { settings }: CheckedUpstream,
): State {
  const is = (text: string) => ({ text: `it ${text}; run \`parley check\``, isTrouble: true })
  if (trouble !== null) return is(trouble.says)
  if (listed.kind === 'failed') return is(`cannot be reached (${listed.code})`)
  const { status } = listed
  if (status === 401 || status === 403) {
    const { api_key_env } = settings
    const rejected = api_key_env === null ? 'requests without an API key' : `the key in ${api_key_env}`
    return is(`rejects ${rejected} (HTTP ${status})`)
  }
  if (DOWN.includes(status)) return is(`fails with HTTP ${status}`)
  const more = status < 300 ? '' : ` (HTTP ${status} to GET /models)`
  return { text: `it answers${more}`, isTrouble: false }
}

function modelsText(models: readonly string[]): string {
  const shown = models.slice(0, SHOWN_MODELS).join(', ')
  const more = models.length - SHOWN_MODELS
  return `${models.length === 1 ? 'model' : 'models'} ${shown}${more > 0 ? ` and ${more} more` : ''}`
}
