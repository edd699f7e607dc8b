/**
 * The constant parts of requests to a model server: URL, headers and certificates. They are computed once for each upstream.
 */
import { getCACertificates } from 'node:tls'
import type { UpstreamAccess } from '../config/upstream-access.ts'

/** The URL of an endpoint. It keeps the query of `base_url`, because some gateways expect their api-version there. */
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
 * Returns alternating names and values, which undici expects. Headers from the settings replace default ones. Throws if the key
 * contains characters that are not valid in a header.
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

/** The TLS options with the certificates to trust; empty if the default ones suffice. */
export function trustedCertificates(ca: UpstreamAccess['ca']): { readonly ca?: string[] } {
  return ca === null ? {} : { ca: [...getCACertificates('default'), ca] }
}
