/**
 * Starts a whole Parley in the process of the test, with its own database and port, for tests that send HTTP requests.
 *
 * ```ts
 * const parley = await startParley(t, { upstream: modelServer.url })
 * const key = await parley.key('user_free')
 * const answer = await parley.post('/api/v1/messages', job(), key)   // { status, headers, body }
 * ```
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueKey } from '../src/accounts/key.ts'
import { createService } from '../src/app/create-service.ts'
import type { Service } from '../src/app/service.ts'
import { type Clock, systemClock } from '../src/clock.ts'
import type { Role } from '../src/config/allowed-values.ts'
import { loadConfiguration } from '../src/config/load.ts'
import type { Environment } from '../src/config/settings.ts'
import type { SingleCreate } from '../src/job/request.ts'
import type { Store } from '../src/store/store.ts'
import type { Fields, Log } from '../src/telemetry/log.ts'
import { databaseUrl } from './on-each-store.ts'

/** Grants access to the admin API of every Parley that this file starts. */
export const ADMIN_TOKEN = 'admin-token-for-tests'

export interface ParleyOptions {
  readonly settings?: Readonly<Record<string, unknown>>
  /** All models use the model server at this URL. Without it, and without upstreams in `settings`, the simulator answers. */
  readonly upstream?: string
  readonly upstreamKey?: string
  /**
   * If true, the limit of concurrent calls to `upstream` comes from the settings or the default. Otherwise it is 256 from the
   * start.
   */
  readonly findsConcurrency?: boolean
  readonly env?: Environment
  readonly clock?: Clock
  readonly role?: Role
  /** The folder outlives this Parley, so that the test can start another one on the same database. */
  readonly folder?: string
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests inspect answers of every shape, and fail if one is wrong.
  readonly body: any
  readonly text: string
}

/** A lifetime is a test, or a whole file with `after` of node:test. */
export interface Lifetime {
  after(end: () => unknown): void
}

export interface LogLine extends Fields {
  readonly level: string
  readonly message: string
}

export interface Parley {
  readonly url: string
  readonly store: Store
  readonly folder: string
  readonly database: string
  readonly log: LogLine[]
  /** Creates an API key. The account is named after the tier unless `account` is passed. */
  key(tier?: string, account?: string): Promise<string>
  post(path: string, body: unknown, key?: string, headers?: Record<string, string>): Promise<Answer>
  get(path: string, key?: string, headers?: Record<string, string>): Promise<Answer>
  request(path: string, init: RequestInit): Promise<Answer>
  ended(jobId: string, key: string): Promise<Answer>
  stop(): Promise<void>
}

/** `over` replaces fields of a valid job. */
export function job(over: Readonly<Record<string, unknown>> = {}): SingleCreate {
  return {
    model: 'gpt-5-mini',
    response_format: { format: 'text' },
    messages: [{ role: 'user', content: 'Hello' }],
    ...over,
  } as SingleCreate
}

/**
 * Parley slows down rejections by default, but tests send many rejected requests at once, some while the clock stands still.
 */
const UNPACED = { rejections_per_second: 1_000_000 }

export async function startParley(t: Lifetime, options: ParleyOptions = {}): Promise<Parley> {
  const clock = options.clock ?? systemClock
  const folder = options.folder ?? (await temporaryFolder(t))
  const database = await databaseUrl(t, folder, clock.nowMs())
  const file = join(folder, 'config.json')
  await writeFile(
    file,
    JSON.stringify({
      ...options.settings,
      limits: { ...UNPACED, ...(options.settings?.limits as object | undefined) },
    }),
  )
  const env: Environment = {
    DATABASE_URL: database,
    PORT: '0',
    PARLEY_ADMIN_TOKEN: ADMIN_TOKEN,
    ...(options.upstream && { OPENAI_BASE_URL: options.upstream }),
    // Without this variable, the simulator answers on SQLite but not on Postgres.
    ...(isSimulated(options) && { PARLEY_SIMULATOR: 'true' }),
    // Tests expect calls at once, even if Parley knows nothing about the model server yet.
    ...(options.upstream && !options.findsConcurrency && { OPENAI_MAX_CONCURRENCY: '256' }),
    ...(options.upstreamKey && { OPENAI_API_KEY: options.upstreamKey }),
    ...options.env,
  }
  const log: LogLine[] = []
  const service = await createService({
    configuration: loadConfiguration(env, file),
    log: recordingLog(log),
    clock,
    ...(options.role && { role: options.role }),
    onFatal: (error) => {
      throw error
    },
  })
  const url = await service.listen()
  t.after(() => service.stop())
  return parleyAt({ url, folder, database, log }, service)
}

function isSimulated({ upstream, settings = {}, env = {} }: ParleyOptions): boolean {
  const configures = ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'OPENAI_MODEL'].some((name) => env[name])
  return upstream === undefined && settings.upstreams === undefined && !configures
}

export async function temporaryFolder(t: Lifetime): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-test-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

function recordingLog(lines: LogLine[]): Log {
  const at = (level: string) => (fields: Fields, message: string) => {
    lines.push({ ...fields, level, message })
  }
  return { error: at('error'), warn: at('warn'), info: at('info'), debug: at('debug'), flush: () => {} }
}

function parleyAt(place: Pick<Parley, 'url' | 'folder' | 'database' | 'log'>, service: Service): Parley {
  const { url } = place
  const { store } = service
  const request = async (path: string, init: RequestInit): Promise<Answer> => {
    const response = await fetch(url + path, init)
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, body: parsed(text) }
  }
  const get = (path: string, key?: string, headers: Record<string, string> = {}) =>
    request(path, { headers: { ...(key && { 'x-api-key': key }), ...headers } })
  return {
    ...place,
    store,
    request,
    get,
    post: (path, body, key, headers = {}) =>
      request(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(key && { 'x-api-key': key }), ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    key: async (tier = 'user_max', account = tier) => {
      const issued = await issueKey(store, { account, tier, expiresDays: null, nowMs: Date.now() })
      if (issued.kind !== 'issued') throw new Error(`account ${account} has tier ${issued.tier}`)
      return issued.key
    },
    ended: async (jobId, key) => {
      for (;;) {
        const answer = await get(`/api/v1/messages/${jobId}`, key)
        if (answer.status !== 200) throw new Error(`a read gave ${answer.status}: ${answer.text}`)
        if (['completed', 'failed'].includes(answer.body.data.status)) return answer
      }
    },
    stop: () => service.stop(),
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
