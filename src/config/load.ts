/**
 * Loads and checks the configuration. Environment variables override the file, and the file overrides the defaults. Also
 * decides whether the built-in simulator answers, which must never happen by accident.
 */

import { wholeMs } from '../clock.ts'
import { isObject, type JsonObject } from '../json-object.ts'
import { readNetworks } from '../net/ssrf-guard.ts'
import { databaseProblems, LOG_LEVELS, type LogLevel } from './allowed-values.ts'
import { didYouMean, environmentNameProblems, withSecretFiles } from './environment.ts'
import { ConfigurationError, readConfiguration, settingLines } from './file.ts'
import { merge, OPENAI, withOpenAiModel, withoutUnusableDefaults } from './merge.ts'
import { DEFAULTS, type Environment, type Settings, UPSTREAM_DEFAULTS } from './settings.ts'
import { checkShape } from './shape.ts'
import { type UpstreamAccess, upstreamAccess } from './upstream-access.ts'

export interface Configuration {
  readonly settings: Settings
  /** Parley sends these to each upstream in addition to the conversation. They include secrets. */
  readonly access: ReadonlyMap<string, UpstreamAccess>
  readonly concurrency: ReturnType<typeof knownConcurrency>
  readonly simulated: boolean
  readonly logLevel: LogLevel
  /** This is PARLEY_ADMIN_TOKEN, or the content of the file PARLEY_ADMIN_TOKEN_FILE; null if neither is set. */
  readonly adminToken: string | null
  readonly file: string | null
}

/** The admin token is sent in a header, so only visible ASCII characters are allowed. */
const ADMIN_TOKEN = /^[\x21-\x7e]{1,512}$/

/**
 * @param file the option `--config`, which overrides PARLEY_CONFIG
 * @throws ConfigurationError with a sentence for each invalid setting
 */
export function loadConfiguration(environment: Environment, file?: string): Configuration {
  const { path, given } = readConfiguration(environment, file)
  const unread: string[] = []
  const env = withSecretFiles(environment, unread)
  // Most other problems, such as a missing key, would only follow from the secret files that could not be read.
  if (unread.length > 0)
    throw new ConfigurationError([...environmentNameProblems(environment, given), ...unread])
  const fromEnvironment: string[] = []
  const shape = checkShape(withEnvironment(merge(DEFAULTS, given) as Settings, env, fromEnvironment))
  const merged = shape.usable
  const configured = configuresModelServer(given, env)
  const { simulated, problem: simulatorProblem } = decideSimulator(merged, configured)
  // If no model server is configured, a missing key is not the problem to report.
  const isKeyless = simulated || simulatorProblem !== null
  const keyless = isKeyless ? new Set(Object.keys(merged.upstreams)) : keylessUpstreams(given, env)
  const usable = withoutUnusableDefaults(merged, given, !configured || namesOpenai(env))
  const settings = withOpenAiModel(usable, given, env, keyless)
  const { access, problems: accessProblems } = upstreamAccess(settings, env, keyless)
  const further = [
    ...(simulatorProblem === null ? [] : [simulatorProblem]),
    ...settingsProblems(settings),
    ...accessProblems,
  ]
  const problems = [
    ...environmentNameProblems(env, given),
    ...fromEnvironment,
    ...shape.problems,
    ...further.filter((problem) => !shape.follows(problem)),
  ]
  const logLevel = env.LOG_LEVEL || 'info'
  if (!LOG_LEVELS.includes(logLevel as LogLevel))
    problems.push(`LOG_LEVEL: must be one of ${LOG_LEVELS.join(', ')}`)
  const adminToken = env.PARLEY_ADMIN_TOKEN || null
  if (adminToken !== null && !ADMIN_TOKEN.test(adminToken))
    problems.push('PARLEY_ADMIN_TOKEN: must be 1 to 512 visible ASCII characters')
  if (problems.length > 0) throw new ConfigurationError(withLines(problems, path, env))
  const concurrency = knownConcurrency(settings, given, env)
  return { settings, access, concurrency, simulated, logLevel: logLevel as LogLevel, adminToken, file: path }
}

/** Returns how long finished jobs can be read. Commands with databases as arguments use this. */
export function loadRetentionMs(env: Environment, file?: string): number {
  return wholeMs(loadFile(env, file).jobs.retention_seconds)
}

export function loadTierNames(env: Environment, file?: string): readonly string[] {
  return Object.keys(loadFile(env, file).tiers)
}

function loadFile(env: Environment, file?: string): Settings {
  const { path, given } = readConfiguration(env, file)
  const settings = merge(DEFAULTS, given) as Settings
  const { problems } = checkShape(settings)
  if (problems.length > 0) throw new ConfigurationError(withLines(problems, path, env))
  return settings
}

/** If OPENAI_BASE_URL is set without OPENAI_API_KEY, the server is usually the operator's own and needs no key. */
function keylessUpstreams(given: JsonObject, env: Environment): ReadonlySet<string> {
  const upstream = isObject(given.upstreams) ? given.upstreams[OPENAI] : undefined
  const namesKey = isObject(upstream) && upstream.api_key_env !== undefined
  const none = env.OPENAI_BASE_URL && !env.OPENAI_API_KEY && !namesKey
  return new Set(none ? [OPENAI] : [])
}

/** If one of these variables is set, the line in the file is not the cause of a problem with the setting. */
const OVERRIDDEN_BY: Readonly<Record<string, string>> = {
  host: 'HOST',
  port: 'PORT',
  database: 'DATABASE_URL',
  simulator: 'PARLEY_SIMULATOR',
  [`upstreams.${OPENAI}.base_url`]: 'OPENAI_BASE_URL',
  [`upstreams.${OPENAI}.max_concurrency`]: 'OPENAI_MAX_CONCURRENCY',
}

function withLines(problems: readonly string[], file: string | null, env: Environment): string[] {
  if (file === null) return [...problems]
  const lineOf = settingLines(file)
  return problems.map((problem) => {
    const path = problem.slice(0, problem.indexOf(': '))
    const line = env[OVERRIDDEN_BY[path] ?? ''] ? null : lineOf(path)
    return line === null ? problem : `${problem} (${file}:${line})`
  })
}

/** `problems` gets a sentence for each variable whose value is invalid and therefore ignored. */
function withEnvironment(settings: Settings, env: Environment, problems: string[]): Settings {
  const result: Settings = { ...settings }
  if (env.HOST) result.host = env.HOST
  if (env.PORT) {
    if (/^\d{1,5}$/.test(env.PORT) && Number(env.PORT) <= 65_535) result.port = Number(env.PORT)
    else problems.push(`PORT: must be a number from 0 to 65535, not ${env.PORT}`)
  }
  if (env.DATABASE_URL) result.database = env.DATABASE_URL
  if (env.PARLEY_SIMULATOR) {
    const value = SIMULATOR_VALUES.get(env.PARLEY_SIMULATOR)
    if (value !== undefined) result.simulator = value
    else problems.push(`PARLEY_SIMULATOR: must be true, false or auto, not ${env.PARLEY_SIMULATOR}`)
  }
  const { OPENAI_BASE_URL: baseUrl, OPENAI_MAX_CONCURRENCY: wanted } = env
  const concurrency = /^[1-9]\d{0,5}$/.test(wanted ?? '') ? wanted : undefined
  if (wanted && !concurrency)
    problems.push(`OPENAI_MAX_CONCURRENCY: must be a whole number from 1 to 999999, not ${wanted}`)
  if ((baseUrl || concurrency) && isObject(settings.upstreams)) {
    const upstream = settings.upstreams[OPENAI] ?? UPSTREAM_DEFAULTS
    const changed = {
      ...(baseUrl && { base_url: baseUrl }),
      ...(concurrency && { max_concurrency: Number(concurrency) }),
    }
    result.upstreams = { ...settings.upstreams, [OPENAI]: { ...upstream, ...changed } }
  }
  return result
}

const SIMULATOR_VALUES: ReadonlyMap<string, Settings['simulator']> = new Map<string, Settings['simulator']>([
  ['true', true],
  ['false', false],
  ['auto', 'auto'],
])

/** OpenAI's own server accepts any number of concurrent calls, or responds with 429 at once. */
const UNLIMITED_HOST = 'api.openai.com'

/** Returns `fixed` for OpenAI's own server, `explicit` if the operator set `max_concurrency`, and `unknown` otherwise. */
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

/** Each sentence begins with the path of the setting, which `withLines` needs. */
function settingsProblems(settings: Settings): string[] {
  return [
    ...databaseProblems(settings.database),
    ...modelProblems(settings),
    ...priceProblems(settings),
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
      ...unknown.map(
        ({ upstream }) =>
          `${path}.targets: there is no upstream ${upstream}${didYouMean(upstream, Object.keys(upstreams))}`,
      ),
      ...wrong.map(({ model }) => `${path}.auto: ${model} must name a model that has targets`),
    ]
  })
}

function priceProblems({ models, currency }: Settings): string[] {
  if (currency !== undefined && !/^[A-Z]{3}$/.test(currency))
    return [`currency: must be three capital letters, such as EUR, not ${currency}`]
  return Object.entries(models).flatMap(([name, { price, targets = [], auto }]) => {
    const path = `models.${name}.price`
    if (auto !== undefined && price !== undefined)
      return [`${path}: a model with auto has the prices of the models that it chooses from`]
    const isPriced = price !== undefined || targets.some((target) => target.price !== undefined)
    return isPriced && currency === undefined ? [`${path}: requires currency, such as "currency": "EUR"`] : []
  })
}

function tierProblems({ tiers, models }: Settings): string[] {
  return Object.entries(tiers).flatMap(([name, tier]) => {
    const named = tier.models === 'all' ? [] : tier.models
    return named
      .filter((model) => !Object.hasOwn(models, model))
      .map(
        (model) =>
          `tiers.${name}.models: there is no model ${model}${didYouMean(model, Object.keys(models))}`,
      )
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

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i

interface SimulatorDecision {
  readonly simulated: boolean
  readonly problem: string | null
}

function decideSimulator(settings: Settings, configured: boolean): SimulatorDecision {
  const { simulator } = settings
  if (simulator === true) return { simulated: true, problem: null }
  if (configured) return { simulated: false, problem: null }
  if (simulator === false) return { simulated: false, problem: noModel('the simulator is disabled') }
  const reasons = reasonsForAModel(settings)
  if (reasons.length === 0) return { simulated: true, problem: null }
  const why = `the simulator answers by itself only in a trial on one machine, and ${reasons.join(', and ')}`
  return { simulated: false, problem: noModel(why) }
}

/** Returns why this server is probably more than a trial, so that it needs a real model. */
function reasonsForAModel({ database, host, trust_proxy }: Settings): string[] {
  return [
    ...(/^postgres(ql)?:/.test(database) ? ['the database is Postgres'] : []),
    ...(LOOPBACK.test(host) ? [] : [`the host ${host} is not a loopback address`]),
    ...(trust_proxy === false ? [] : ['trust_proxy is set']),
  ]
}

function noModel(why: string): string {
  return `simulator: no model is configured, and ${why}. Set OPENAI_API_KEY, or OPENAI_BASE_URL for another model server; or add upstreams and models to the configuration file (docs/model-servers.md); or set PARLEY_SIMULATOR=true to get simulated answers`
}

function configuresModelServer({ upstreams }: JsonObject, env: Environment): boolean {
  return (isObject(upstreams) && Object.keys(upstreams).length > 0) || namesOpenai(env)
}

function namesOpenai(env: Environment): boolean {
  return Boolean(env.OPENAI_API_KEY || env.OPENAI_BASE_URL || env.OPENAI_MODEL)
}
