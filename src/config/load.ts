/**
 * Reads the settings: environment variables override the file, which overrides the defaults. The environment is an argument.
 */
import { Errors } from 'typebox/schema'
import { wholeMs } from '../clock.ts'
import { readNetworks } from '../net/ssrf-guard.ts'
import { databaseProblems } from './database-url.ts'
import { ConfigurationError, configFile, readFile } from './file.ts'
import { isObject, type JsonObject } from './json-object.ts'
import { LOG_LEVELS, type LogLevel } from './log-level.ts'
import { merge, OPENAI, withoutUnusableDefaults } from './merge.ts'
import { withOpenAiModel } from './openai-model.ts'
import { DEFAULTS, type Environment, type Settings, settingsSchema, UPSTREAM_DEFAULTS } from './settings.ts'
import { type UpstreamAccess, upstreamAccess } from './upstream-access.ts'

export interface Configuration {
  readonly settings: Settings
  /** What is sent with requests to each upstream, including secrets. */
  readonly access: ReadonlyMap<string, UpstreamAccess>
  /** How many concurrent calls each upstream is known to serve. */
  readonly concurrency: ReturnType<typeof knownConcurrency>
  /** True if no model is configured, so the built-in simulator answers. */
  readonly simulated: boolean
  readonly logLevel: LogLevel
  /** PARLEY_ADMIN_TOKEN; null if it is not set. */
  readonly adminToken: string | null
  /** The file that was read, if any. */
  readonly file: string | null
}

/** Characters that a header may contain. */
const ADMIN_TOKEN = /^[\x21-\x7e]{1,512}$/

/**
 * @param file the `--config` option; overrides PARLEY_CONFIG
 * @throws ConfigurationError that names each invalid setting, with the reason
 */
export function loadConfiguration(env: Environment, file?: string): Configuration {
  const path = configFile(env, file)
  const given = path === null ? {} : readFile(path)
  const merged = withEnvironment(merge(DEFAULTS, given) as Settings, env)
  checkShape(merged)
  const simulated = !namesUpstream(given) && !namesOpenai(env)
  const keyless = simulated ? new Set(Object.keys(merged.upstreams)) : keylessUpstreams(given, env)
  const usable = withoutUnusableDefaults(merged, given, simulated || namesOpenai(env))
  const settings = withOpenAiModel(usable, given, env, keyless)
  const { access, problems: accessProblems } = upstreamAccess(settings, env, keyless)
  const problems = [...settingsProblems(settings), ...accessProblems]
  const logLevel = env.LOG_LEVEL || 'info'
  if (!LOG_LEVELS.includes(logLevel as LogLevel))
    problems.push(`LOG_LEVEL: must be one of ${LOG_LEVELS.join(', ')}`)
  const adminToken = env.PARLEY_ADMIN_TOKEN || null
  if (adminToken !== null && !ADMIN_TOKEN.test(adminToken))
    problems.push('PARLEY_ADMIN_TOKEN: must be 1 to 512 visible ASCII characters')
  if (problems.length > 0) throw new ConfigurationError(problems)
  const concurrency = knownConcurrency(settings, given, env)
  return { settings, access, concurrency, simulated, logLevel: logLevel as LogLevel, adminToken, file: path }
}

/** How long a finished job can be read, for a command that takes its databases as arguments. */
export function loadRetentionMs(env: Environment, file?: string): number {
  const path = configFile(env, file)
  const given = path === null ? {} : readFile(path)
  const settings = merge(DEFAULTS, given) as Settings
  checkShape(settings)
  return wholeMs(settings.jobs.retention_seconds)
}

function namesUpstream({ upstreams }: JsonObject): boolean {
  return isObject(upstreams) && Object.keys(upstreams).length > 0
}

function namesOpenai(env: Environment): boolean {
  return Boolean(env.OPENAI_API_KEY || env.OPENAI_BASE_URL || env.OPENAI_MODEL)
}

/** A server given by OPENAI_BASE_URL without a key is usually the operator's own, and does not require one. */
function keylessUpstreams(given: JsonObject, env: Environment): ReadonlySet<string> {
  const upstream = isObject(given.upstreams) ? given.upstreams[OPENAI] : undefined
  const namesKey = isObject(upstream) && upstream.api_key_env !== undefined
  const none = env.OPENAI_BASE_URL && !env.OPENAI_API_KEY && !namesKey
  return new Set(none ? [OPENAI] : [])
}

function withEnvironment(settings: Settings, env: Environment): Settings {
  const result: Settings = { ...settings }
  if (env.HOST) result.host = env.HOST
  if (env.PORT) result.port = portOf(env.PORT)
  if (env.DATABASE_URL) result.database = env.DATABASE_URL
  const { OPENAI_BASE_URL: baseUrl, OPENAI_MAX_CONCURRENCY: concurrency } = env
  if ((baseUrl || concurrency) && isObject(settings.upstreams)) {
    const upstream = settings.upstreams[OPENAI] ?? UPSTREAM_DEFAULTS
    const changed = {
      ...(baseUrl && { base_url: baseUrl }),
      ...(concurrency && { max_concurrency: concurrencyOf(concurrency) }),
    }
    result.upstreams = { ...settings.upstreams, [OPENAI]: { ...upstream, ...changed } }
  }
  return result
}

function concurrencyOf(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text))
    throw new ConfigurationError([
      `OPENAI_MAX_CONCURRENCY: must be a whole number from 1 to 999999, not ${text}`,
    ])
  return Number(text)
}

function portOf(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new ConfigurationError([`PORT: must be a number from 0 to 65535, not ${text}`])
  return Number(text)
}

function checkShape(settings: Settings): void {
  const [fits, errors] = Errors(settingsSchema, settings)
  if (fits) return
  const problems = new Set<string>()
  for (const { instancePath, keyword, message } of errors) {
    const path = settingPath(instancePath)
    if (keyword === 'boolean') problems.add(`${path}: unknown setting`)
    else if (keyword !== 'additionalProperties') problems.add(`${path || 'the configuration'}: ${message}`)
  }
  throw new ConfigurationError([...problems])
}

/** The path in a JSON pointer, which writes a slash within a name as `~1`. */
function settingPath(pointer: string): string {
  const names = pointer.slice(1).split('/')
  return names.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~')).join('.')
}

/** A server that is known to serve any number of calls, or to respond with 429 at once. */
const UNLIMITED_HOST = 'api.openai.com'

/**
 * By upstream: `explicit` if the file or OPENAI_MAX_CONCURRENCY sets `max_concurrency`, `fixed` for OpenAI's own, else `unknown`.
 */
function knownConcurrency(
  settings: Settings,
  given: JsonObject,
  env: Environment,
): ReadonlyMap<string, 'explicit' | 'fixed' | 'unknown'> {
  const entries = Object.entries(settings.upstreams).map(([name, { base_url }]) => {
    if (URL.canParse(base_url) && new URL(base_url).hostname === UNLIMITED_HOST)
      return [name, 'fixed'] as const
    const inFile = isObject(given.upstreams) ? given.upstreams[name] : undefined
    const isSet =
      (isObject(inFile) && inFile.max_concurrency !== undefined) ||
      (name === OPENAI && Boolean(env.OPENAI_MAX_CONCURRENCY))
    return [name, isSet ? 'explicit' : 'unknown'] as const
  })
  return new Map(entries)
}

/** One sentence each, which starts with the path of the setting. */
function settingsProblems(settings: Settings): string[] {
  return [
    ...databaseProblems(settings.database),
    ...modelProblems(settings),
    ...tierProblems(settings),
    ...networkProblems('callbacks.allow_networks', settings.callbacks.allow_networks),
    ...networkProblems('trust_proxy', proxiesOf(settings.trust_proxy)),
    ...originProblems(settings.cors.origins),
  ]
}

function modelProblems({ models, upstreams }: Settings): string[] {
  if (Object.keys(models).length === 0) {
    const upstream = Object.keys(upstreams)[0] ?? 'NAME'
    return [
      `models: no models are configured. Add one, such as "models": { "small": { "targets": [{ "upstream": "${upstream}", "model": "…" }] } }`,
    ]
  }
  return Object.entries(models).flatMap(([name, { targets, auto }]) => {
    const path = `models.${name}`
    if ((targets === undefined) === (auto === undefined)) return [`${path}: must have either targets or auto`]
    const unknown = (targets ?? []).filter(({ upstream }) => !Object.hasOwn(upstreams, upstream))
    const wrong = (auto ?? []).filter(({ model }) => models[model]?.targets === undefined)
    return [
      ...unknown.map(({ upstream }) => `${path}.targets: there is no upstream ${upstream}`),
      ...wrong.map(({ model }) => `${path}.auto: ${model} must name a model that has targets`),
    ]
  })
}

function tierProblems({ tiers, models }: Settings): string[] {
  return Object.entries(tiers).flatMap(([name, tier]) => {
    const named = tier.models === 'all' ? [] : tier.models
    return named
      .filter((model) => !Object.hasOwn(models, model))
      .map((model) => `tiers.${name}.models: there is no model ${model}`)
  })
}

function networkProblems(path: string, list: readonly string[]): string[] {
  const read = readNetworks(list)
  return read.ok ? [] : [`${path}: ${read.entry} is not a valid CIDR range, such as 10.0.0.0/8`]
}

function proxiesOf(trust: Settings['trust_proxy']): string[] {
  return typeof trust === 'string' ? trust.split(',').map((entry) => entry.trim()) : []
}

function originProblems(origins: readonly string[]): string[] {
  return origins
    .filter((origin) => origin !== '*' && URL.parse(origin)?.origin !== origin)
    .map((origin) => `cors.origins: ${origin} is not a valid origin, such as https://app.example.com, or "*"`)
}
