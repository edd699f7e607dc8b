/** The constant part of requests to a model server: URL, headers and certificates, computed once for each upstream. */
import { getCACertificates } from 'node:tls'
import type { UpstreamAccess } from '../config/upstream-access.ts'

/** The URL of an endpoint. Keeps the query of `base_url`, in which some gateways expect their api-version. */
export function endpointUrl(
  baseUrl: string,
  endpoint: '/chat/completions' | '/models',
  query: UpstreamAccess['query'],
): URL {
  const url = new URL(baseUrl)
  url.pathname = `${url.pathname.replace(/\/+$/, '')}${endpoint}`
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
  return url
}

/**
 * Alternating names and values, as undici expects. Headers from the settings replace default ones. Throws if the key contains
 * characters that a header must not.
 */
export function requestHeaders(
  upstream: string,
  { apiKey, headers }: Pick<UpstreamAccess, 'apiKey' | 'headers'>,
): string[] {
  const all = new Map([
    ['content-type', 'application/json'],
    ['accept', 'application/json'],
    ['user-agent', 'parley'],
  ])
  if (apiKey !== null && apiKey !== '') {
    if (!/^[\x21-\x7e]+$/.test(apiKey)) {
      throw new Error(`The key of upstream ${upstream} contains characters that are not valid in a header.`)
    }
    all.set('authorization', `Bearer ${apiKey}`)
  }
  for (const [name, value] of Object.entries(headers)) all.set(name.toLowerCase(), value)
  return [...all].flat()
}

/** The certificates to trust, as TLS options; absent if those of the system suffice. */
export function trustedCertificates(ca: UpstreamAccess['ca']): { readonly ca?: string[] } {
  return ca === null ? {} : { ca: [...getCACertificates('default'), ca] }
}
