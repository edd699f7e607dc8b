/** The settings as they may be shown, without secrets. The keys of upstreams are not settings, so they never appear. */
import type { Settings } from './settings.ts'

export const MASK = '***'

const SECRET_NAME = /key|token|secret|pass|pwd|sig|auth|credential|cert/i

export function maskedSettings(settings: Settings): Settings {
  const upstreams = Object.entries(settings.upstreams).map(([name, upstream]) => [
    name,
    { ...upstream, base_url: maskedUrl(upstream.base_url) },
  ])
  return {
    ...settings,
    database: maskedDatabase(settings.database),
    upstreams: Object.fromEntries(upstreams),
  }
}

/** The path of a file is not secret. An address keeps the name of its user. */
export function maskedDatabase(database: string): string {
  return database.startsWith('sqlite:') ? database : maskedUrl(database, true)
}

/** @param keepsUser whether a user name before the host is shown; in the address of a model server it may be a key */
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
