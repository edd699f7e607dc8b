/**
 * Checks the headers that a caller adds to a callback. A header must not change where the request goes, where the body ends or
 * who seems to have sent the request, and the value must arrive unchanged.
 */

/** With Parley's own headers, these limits stay below the 16 KiB that common servers accept. */
export const MAX_HEADERS = 50
export const MAX_HEADER_NAME_LENGTH = 256
export const MAX_HEADERS_BYTES = 8192

/**
 * These headers are for framing and routing, are required by metadata servers, or replace the client's address, the path or the
 * method on servers behind a proxy. All names here and below are in lower case.
 */
const REJECTED_HEADERS: ReadonlySet<string> = new Set([
  'cf-connecting-ip',
  'connection',
  'content-encoding',
  'content-length',
  'expect',
  'forwarded',
  'host',
  'http2-settings',
  'keep-alive',
  'metadata',
  'metadata-flavor',
  'te',
  'trailer',
  'transfer-encoding',
  'true-client-ip',
  'upgrade',
  'via',
  'x-client-ip',
  'x-google-metadata-request',
  'x-http-method-override',
  'x-original-url',
  'x-real-ip',
  'x-rewrite-url',
])

/** Parley sets the `webhook-` headers itself: ID, time and signature of the callback. */
const REJECTED_PREFIXES = ['proxy-', 'webhook-', 'x-forwarded-', 'x-aws-ec2-metadata-']

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** Other characters may not arrive unchanged (RFC 9110 §5.5): some receivers read them as Latin-1, some as UTF-8. */
const SENDABLE = /^[\t\x20-\x7e]*$/

/** The name `header`, as the caller wrote it, followed by `rule` is a message such as `a is given twice`. */
export interface HeaderProblem {
  readonly header: string
  readonly rule: string
}

export function checkCallbackHeaders(headers: { readonly [name: string]: string }): HeaderProblem | null {
  const seen = new Set<string>()
  let bytes = 0
  for (const [header, value] of Object.entries(headers)) {
    const lower = header.toLowerCase()
    const rule = nameRule(header, lower) ?? valueRule(lower, value)
    if (rule !== null) return { header: header.slice(0, MAX_HEADER_NAME_LENGTH), rule }
    if (seen.has(lower)) return { header, rule: 'is given twice, with different capitalization' }
    seen.add(lower)
    if (seen.size > MAX_HEADERS) return { header, rule: `exceeds the limit of ${MAX_HEADERS} headers` }
    bytes += header.length + value.length
    if (bytes > MAX_HEADERS_BYTES) {
      return {
        header,
        rule: `exceeds the limit of ${MAX_HEADERS_BYTES} bytes for all headers together`,
      }
    }
  }
  return null
}

function nameRule(header: string, lower: string): string | null {
  if (header.length > MAX_HEADER_NAME_LENGTH) {
    return `has a name that is too long: at most ${MAX_HEADER_NAME_LENGTH} characters`
  }
  if (!TOKEN.test(header)) return 'is not a header name (letters, digits and hyphens, for example X-Order-Id)'
  if (REJECTED_HEADERS.has(lower) || REJECTED_PREFIXES.some((prefix) => lower.startsWith(prefix))) {
    return 'cannot be set: Parley controls it when it sends the callback'
  }
  return null
}

function valueRule(lower: string, value: string): string | null {
  if (!SENDABLE.test(value)) {
    return 'must have a value of visible ASCII characters, spaces and tabs; encode any other text'
  }
  if (lower === 'content-type' && !isJsonType(value))
    return 'must be application/json, the format of a callback'
  return null
}

/** Returns whether the value is `application/json`, without a charset other than UTF-8. */
function isJsonType(value: string): boolean {
  const [type = '', ...parameters] = value.toLowerCase().split(';')
  return (
    type.trim() === 'application/json' &&
    parameters.every((parameter) => {
      const [name = '', charset = ''] = parameter.split('=')
      return name.trim() !== 'charset' || /^\s*"?utf-?8"?\s*$/.test(charset)
    })
  )
}
