/**
 * Determines what Parley sends to each upstream in addition to the conversation: key, headers, query and certificates. The
 * result contains secrets, so it must never be shown or logged.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { SECRET_NAME } from './masked.ts'
import type { Environment, Settings, UpstreamSettings } from './settings.ts'

export interface UpstreamAccess {
  /** This is the value of the variable in `api_key_env`; null if the server needs no key. */
  readonly apiKey: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  /** These certificates (PEM text) are trusted in addition to those of the system. */
  readonly ca: string | null
  /**
   * These texts are masked in messages of the server, which may repeat the request: the key, headers and their longer parts,
   * URL parameters with a secret name or a value from the environment, and long strings in the body. The longest come first.
   */
  readonly secrets: readonly string[]
}

export interface AccessFindings {
  readonly access: Map<string, UpstreamAccess>
  /** Each sentence begins with the path of the setting, and contains no values, which may be secret. */
  readonly problems: string[]
}

/** The setting `headers` must not contain these headers: they belong to the connection, or Parley sets them. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  ...['connection', 'content-length', 'expect', 'host', 'keep-alive', 'proxy-connection', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade', 'accept', 'accept-encoding', 'content-encoding', 'content-type'],
])
/** The setting `body` must not contain these fields: Parley sets them, or they would make the response unreadable. */
const RESERVED_FIELDS: ReadonlySet<string> = new Set([
  ...['model', 'messages', 'response_format', 'n', 'stream', 'stream_options'],
])
const KEY = /^[\x21-\x7e]+$/
/** Visible ASCII, with spaces and tabs in between, is allowed. HTTP servers may interpret other characters differently. */
const HEADER_VALUE = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/

/**
 * Returns the access to each upstream, with all problems. A variable that is not set is only a problem if models use the
 * upstream.
 * @param keyless upstreams that need no key although models use them
 */
export function upstreamAccess(
  { upstreams, models, jobs }: Settings,
  env: Environment,
  keyless: ReadonlySet<string>,
): AccessFindings {
  const targets = Object.values(models).flatMap((model) => model.targets ?? [])
  const access = new Map<string, UpstreamAccess>()
  const problems: string[] = []
  for (const [name, upstream] of Object.entries(upstreams)) {
    const path = `upstreams.${name}`
    const names = targets.flatMap((target) => (target.upstream === name ? target.model : []))
    const isUsed = names.length > 0
    problems.push(...urlProblems(`${path}.base_url`, upstream.base_url))
    if (upstream.wake_url !== null) {
      problems.push(...urlProblems(`${path}.wake_url`, upstream.wake_url))
      if (jobs.patience_seconds === 0) {
        problems.push(
          `${path}.wake_url: no job waits for a model server while jobs.patience_seconds is 0, so it would never be called; set jobs.patience_seconds, or remove wake_url`,
        )
      }
    }
    const { api_key_env } = upstream
    const apiKey = api_key_env === null ? null : env[api_key_env] || null
    if (api_key_env !== null && apiKey === null && isUsed && !keyless.has(name)) {
      problems.push(
        `${path}.api_key_env: ${notSet(api_key_env)}; set it, or use null if the server does not require a key`,
      )
    }
    if (apiKey !== null && isUsed && !keyless.has(name) && !KEY.test(apiKey)) {
      problems.push(
        `${path}.api_key_env: the value of ${api_key_env} must be visible ASCII, without spaces and line ends`,
      )
    }
    problems.push(...headerProblems(path, upstream, apiKey), ...bodyProblems(path, upstream.body))
    const missing = isUsed ? problems : []
    const headers = resolved(upstream.headers, `${path}.headers`, env, missing)
    const query = resolved(upstream.query, `${path}.query`, env, missing)
    const ca = readCertificates(path, upstream.ca_file)
    if (ca.problem !== null && isUsed) problems.push(ca.problem)
    problems.push(...valueProblems(path, headers))
    const secrets = secretsOf(upstream, { apiKey, headers, query }, names)
    access.set(name, { apiKey, headers, query, ca: ca.pem, secrets })
  }
  return { access, problems }
}

function urlProblems(path: string, text: string): string[] {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return [`${path}: must be an http or https URL`]
  if (url.username === '' && url.password === '') return []
  // The message does not repeat the URL, because user name and password may be secrets.
  return [
    `${path}: must not contain a user name or password; use api_key_env, or headers with "authorization"`,
  ]
}

function headerProblems(path: string, { headers }: UpstreamSettings, apiKey: string | null): string[] {
  const names = Object.keys(headers)
  const seen = new Set<string>()
  return names.flatMap((name) => {
    const lower = name.toLowerCase()
    const at = `${path}.headers.${name}`
    if (RESERVED_HEADERS.has(lower)) return [`${at}: Parley sets this header itself`]
    if (seen.has(lower)) return [`${at}: this header is already set with different capitalization`]
    seen.add(lower)
    if (lower === 'authorization' && apiKey !== null) {
      return [`${at}: api_key_env already sends its key in this header; remove one of the two`]
    }
    return []
  })
}

function valueProblems(path: string, headers: UpstreamAccess['headers']): string[] {
  const wrong = Object.keys(headers).filter((name) => !HEADER_VALUE.test(headers[name] ?? ''))
  return wrong.map((name) => `${path}.headers.${name}: must be visible ASCII and not empty`)
}

function bodyProblems(path: string, body: UpstreamSettings['body']): string[] {
  const reserved = Object.keys(body).filter((field) => RESERVED_FIELDS.has(field))
  return reserved.map((field) => `${path}.body.${field}: this field cannot be set here`)
}

function resolved(
  values: UpstreamSettings['headers'],
  path: string,
  env: Environment,
  problems: string[],
): Record<string, string> {
  const entries = Object.entries(values).flatMap(([name, value]): [string, string][] => {
    if (typeof value === 'string') return [[name, value]]
    const found = env[value.env]
    if (found) return [[name, found]]
    problems.push(`${path}.${name}: ${notSet(value.env)}`)
    return []
  })
  return Object.fromEntries(entries)
}

function notSet(variable: string): string {
  return `the environment variable ${variable} is not set`
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

function readCertificates(
  path: string,
  file: string | null,
): { readonly pem: string | null; readonly problem: string | null } {
  if (file === null) return { pem: null, problem: null }
  try {
    const pem = readFileSync(file, 'utf8')
    const certificates = pem.match(CERTIFICATE) ?? []
    if (certificates.length === 0) throw new Error(`${file} does not contain a PEM certificate`)
    for (const certificate of certificates) new X509Certificate(certificate)
    return { pem: certificates.join('\n'), problem: null }
  } catch (error) {
    return { pem: null, problem: `${path}.ca_file: ${(error as Error).message}` }
  }
}

/** Shorter parts of a header, such as `openai` or `Bearer`, are not masked, because messages may contain these words. */
const SECRET_PART = /[^\s"',;:=(){}[\]]{8,}/g

/** A text of `body` that occurs in the name of a model is not masked, because errors name models. */
function secretsOf(
  { base_url, headers, query, body }: UpstreamSettings,
  given: Pick<UpstreamAccess, 'apiKey' | 'headers' | 'query'>,
  models: readonly string[],
): readonly string[] {
  const secrets = new Set<string>()
  if (given.apiKey !== null) secrets.add(given.apiKey)
  for (const [name, value] of Object.entries(given.headers)) {
    if (isSecret(name, headers[name])) secrets.add(value)
    if (value.length >= 8) secrets.add(value)
    for (const part of value.match(SECRET_PART) ?? []) secrets.add(part)
  }
  for (const [name, value] of Object.entries(given.query)) if (isSecret(name, query[name])) secrets.add(value)
  for (const [name, value] of URL.parse(base_url)?.searchParams ?? []) {
    if (SECRET_NAME.test(name)) secrets.add(value)
  }
  for (const text of stringsIn(body)) {
    if (text.length >= 8 && !models.some((model) => model.includes(text))) secrets.add(text)
  }
  secrets.delete('')
  return [...secrets].sort((a, b) => b.length - a.length)
}

function stringsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(stringsIn) : []
}

function isSecret(name: string, value: UpstreamSettings['headers'][string] | undefined): boolean {
  return typeof value === 'object' || SECRET_NAME.test(name)
}
