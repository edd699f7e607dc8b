/**
 * Returns the settings without secrets, so that they can be shown. Keys of upstreams come from environment variables, so the
 * settings do not contain them.
 */
import type { Settings, UpstreamSettings } from './settings.ts'

const MASK = '***'

export const SECRET_NAME = /key|token|secret|pass|pwd|sig|auth|credential|cert/i

export function maskedSettings(settings: Settings): Settings {
  const upstreams = Object.entries(settings.upstreams).map(([name, upstream]) => [
    name,
    maskedUpstream(upstream),
  ])
  return {
    ...settings,
    database: maskedDatabase(settings.database),
    upstreams: Object.fromEntries(upstreams),
  }
}

/** Masks all headers, but only those parameters and body fields whose names look like those of secrets. */
function maskedUpstream(upstream: UpstreamSettings): UpstreamSettings {
  return {
    ...upstream,
    base_url: maskedUrl(upstream.base_url),
    wake_url: upstream.wake_url === null ? null : maskedUrl(upstream.wake_url),
    headers: maskedValues(upstream.headers, () => true),
    query: maskedValues(upstream.query, (name) => SECRET_NAME.test(name)),
    body: Object.fromEntries(
      Object.entries(upstream.body).map(([name, value]) => [name, maskedField(name, value)]),
    ),
  }
}

function maskedValues(
  values: UpstreamSettings['headers'],
  isSecret: (name: string) => boolean,
): UpstreamSettings['headers'] {
  const entries = Object.entries(values).map(([name, value]): [string, typeof value] => [
    name,
    typeof value === 'string' && isSecret(name) ? MASK : value,
  ])
  return Object.fromEntries(entries)
}

/** Masks only texts: the name `max_tokens`, which belongs to a number, also contains `token`. */
function maskedField(name: string, value: unknown): unknown {
  if (typeof value === 'string') return SECRET_NAME.test(name) ? MASK : value
  if (Array.isArray(value)) return value.map((item) => maskedField(name, item))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([inner, item]) => [
      inner,
      maskedField(SECRET_NAME.test(name) ? name : inner, item),
    ]),
  )
}

/** Keeps the path of a file, and the user name in a URL. */
export function maskedDatabase(database: string): string {
  return database.startsWith('sqlite:') ? database : maskedUrl(database, true)
}

/** In a model server's URL, the user name may be a key, so it is masked unless `keepsUser`. */
function maskedUrl(text: string, keepsUser = false): string {
  const url = URL.parse(text)
  if (!url) return MASK
  if (url.password !== '') url.password = MASK
  if (url.username !== '' && !keepsUser) url.username = MASK
  for (const name of new Set(url.searchParams.keys())) {
    if (SECRET_NAME.test(name)) url.searchParams.set(name, MASK)
  }
  return url.href
}
