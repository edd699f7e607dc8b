/**
 * Which headers a caller may add to a callback. Refused are those that would change where the request goes, how it is
 * framed or whom it claims to be from, and whatever HTTP cannot carry unaltered.
 */

/** More than these would not fit through the servers in common use (16 KiB of headers in all, ours included). */
export const MAX_HEADERS = 50
export const MAX_HEADER_NAME_LENGTH = 256
export const MAX_HEADERS_BYTES = 8192

/** Framing, routing, and the headers with which metadata servers are opened. In lower case, as all names below. */
const REFUSED_HEADERS: ReadonlySet<string> = new Set([
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
  'upgrade',
  'via',
])

/** `webhook-` is ours: the identifier, time and signature of the callback. */
const REFUSED_PREFIXES = ['proxy-', 'webhook-', 'x-forwarded-', 'x-aws-ec2-metadata-']

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/**
 * HTTP promises to carry visible ASCII, spaces and tabs (RFC 9110 §5.5). Bytes beyond are read as Latin-1 by some
 * receivers and as UTF-8 by others, so they are refused here rather than garbled there.
 */
const SENDABLE = /^[\t\x20-\x7e]*$/

/** The header that breaks a rule, as the caller spelled it, and the rule, to be put after its name. */
export interface HeaderProblem {
  readonly header: string
  readonly rule: string
}

/** Checks all `callback_headers` of one callback; null when every one of them can be sent. */
export function checkCallbackHeaders(headers: { readonly [name: string]: string }): HeaderProblem | null {
  const seen = new Set<string>()
  let bytes = 0
  for (const [header, value] of Object.entries(headers)) {
    const lower = header.toLowerCase()
    const rule = nameRule(header, lower) ?? valueRule(lower, value)
    if (rule !== null) return { header: header.slice(0, MAX_HEADER_NAME_LENGTH), rule }
    if (seen.has(lower)) return { header, rule: 'is given twice, in two spellings' }
    seen.add(lower)
    if (seen.size > MAX_HEADERS) return { header, rule: `is one too many: at most ${MAX_HEADERS} are sent` }
    bytes += header.length + value.length
    if (bytes > MAX_HEADERS_BYTES) {
      return {
        header,
        rule: `makes the headers too long: at most ${MAX_HEADERS_BYTES} bytes in all are sent`,
      }
    }
  }
  return null
}

function nameRule(header: string, lower: string): string | null {
  if (header.length > MAX_HEADER_NAME_LENGTH) {
    return `is too long a name: at most ${MAX_HEADER_NAME_LENGTH} characters are sent`
  }
  if (!TOKEN.test(header)) return 'is not a header name (letters, digits and hyphens, for example X-Order-Id)'
  if (REFUSED_HEADERS.has(lower) || REFUSED_PREFIXES.some((prefix) => lower.startsWith(prefix))) {
    return 'may not be set: it belongs to the delivery of the callback, not to its caller'
  }
  return null
}

function valueRule(lower: string, value: string): string | null {
  if (!SENDABLE.test(value)) {
    return 'must have a value of visible ASCII characters, spaces and tabs only; encode other text'
  }
  if (lower === 'content-type' && !isJsonType(value)) return 'must be application/json, which a callback is'
  return null
}

/** `application/json`, with parameters or not, as long as they do not deny that the body is UTF-8. */
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
