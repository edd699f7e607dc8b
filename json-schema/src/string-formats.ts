/**
 * Checks the values of `format`: the formats of OpenAI's structured outputs, and `uri`. Each check takes linear time. Host
 * names may contain encoded labels of other scripts ("A-labels", such as `xn--mnchen-3ya`), according to RFC 5891 and RFC 5892.
 */

type FormatCheck = (text: string) => boolean

const CHECKS = {
  'date-time': isDateTime,
  date: isDate,
  time: isTime,
  duration: isDuration,
  email: isEmail,
  hostname: isHostname,
  ipv4: isIpv4,
  ipv6: isIpv6,
  uuid: (text) => /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i.test(text),
  uri: isUri,
} as const satisfies Record<string, FormatCheck>

export type FormatName = keyof typeof CHECKS

export const FORMAT_NAMES = Object.keys(CHECKS) as readonly FormatName[]

export function isFormatName(name: string): name is FormatName {
  return Object.hasOwn(CHECKS, name)
}

export function meetsFormat(format: FormatName, text: string): boolean {
  return CHECKS[format](text)
}

/** Host names are checked label by label, and encoded labels are decoded, so both take more steps. */
export function formatSteps(format: FormatName, text: string): number {
  const steps = 1 + text.length / CHARACTERS_PER_STEP
  if ((format !== 'hostname' && format !== 'email') || text.length > MAX_MAIL_ADDRESS) return steps
  return steps + text.length * (/xn--/i.test(text) ? STEPS_PER_ENCODED : STEPS_IN_LABEL)
}

/** Native code examines this many characters in the time of one step. */
const CHARACTERS_PER_STEP = 16
const STEPS_IN_LABEL = 0.2
const STEPS_PER_ENCODED = 3

/** Longer addresses are invalid: a host has at most 253 characters, and a local part 64. */
const MAX_MAIL_ADDRESS = 318

const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const

/** Implements `full-date` of RFC 3339. The day must exist. */
function isDate(text: string): boolean {
  const parts = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text)
  if (parts === null) return false
  const year = Number(parts[1])
  const month = Number(parts[2])
  const day = Number(parts[3])
  const leapDay = month === 2 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 1 : 0
  return day >= 1 && day <= (MONTH_DAYS[month - 1] ?? 0) + leapDay
}

/** Implements `full-time` of RFC 3339, with an offset. Second 60 is a leap second, which is allowed only at 23:59 UTC. */
function isTime(text: string): boolean {
  const parts = /^(\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[zZ]|([+-])(\d{2}):(\d{2}))$/.exec(text)
  if (parts === null) return false
  const [hour, minute, second] = [Number(parts[1]), Number(parts[2]), Number(parts[3])]
  const [offsetHour, offsetMinute] = [Number(parts[5] ?? 0), Number(parts[6] ?? 0)]
  if (hour > 23 || minute > 59 || offsetHour > 23 || offsetMinute > 59) return false
  if (second < 60) return true
  const sign = parts[4] === '-' ? 1 : -1
  const utc = hour * 60 + minute + sign * (offsetHour * 60 + offsetMinute)
  return second === 60 && (utc + 1440) % 1440 === 1439
}

function isDateTime(text: string): boolean {
  return isDate(text.slice(0, 10)) && /^[tT]$/.test(text.slice(10, 11)) && isTime(text.slice(11))
}

/** In RFC 3339, appendix A, weeks stand alone, and no unit between two others may be missing. */
function isDuration(text: string): boolean {
  if (text.length > 200) return false
  if (/^P\d+W$/.test(text)) return true
  const parts = /^P([^T]*)(?:T(.+))?$/.exec(text)
  if (parts === null) return false
  const [, date = '', time] = parts
  if (time !== undefined && !/^(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)$/.test(time)) return false
  if (date === '') return time !== undefined
  return /^(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)$/.test(date)
}

/** In RFC 5321, the local part consists of words or is quoted. A host name or an address in brackets follows. */
function isEmail(text: string): boolean {
  const at = text.lastIndexOf('@')
  const local = text.slice(0, at)
  if (at < 1 || local.length > 64) return false
  return (isDotted(local) || QUOTED_LOCAL.test(local)) && isMailHost(text.slice(at + 1))
}

function isDotted(local: string): boolean {
  if (local.startsWith('.') || local.endsWith('.') || local.includes('..')) return false
  return /^[\w!#$%&'*+/=?^`{|}~.-]+$/.test(local)
}

const QUOTED_LOCAL = /^"(?:[ !#-[\]-~]|\\[ -~])*"$/

function isMailHost(host: string): boolean {
  const literal = /^\[(IPv6:)?(.{1,45})\]$/i.exec(host)
  if (literal === null) return isHostname(host)
  return literal[1] === undefined ? isIpv4(literal[2] ?? '') : isIpv6(literal[2] ?? '')
}

/** In RFC 1123, labels have letters, digits and inner hyphens, at most 63 characters each and 253 in total. */
function isHostname(text: string): boolean {
  if (text.length === 0 || text.length > 253) return false
  return text.split('.').every(isLabel)
}

/** In RFC 5890, only encoded labels have hyphens as their third and fourth characters. */
function isLabel(label: string): boolean {
  if (!/^[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?$/i.test(label)) return false
  if (!label.startsWith('--', 2)) return true
  return /^xn--/i.test(label) && isEncodedLabel(label.slice(4).toLowerCase())
}

function isIpv4(text: string): boolean {
  if (text.length > 15) return false
  const parts = text.split('.')
  return parts.length === 4 && parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)
}

function isIpv6(text: string): boolean {
  if (text.length > 45) return false
  const halves = text.split('::')
  if (halves.length > 2) return false
  const [head, tail] = halves
  const before = head === undefined || head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const groups = [...before, ...after]
  let count = groups.length
  const last = groups.at(-1)
  if (last?.includes('.')) {
    // The dotted form counts as two groups, and is allowed only at the end.
    if (!isIpv4(last) || (halves.length === 2 && after.length === 0)) return false
    groups.pop()
    count++
  }
  if (!groups.every((group) => /^[\da-f]{1,4}$/i.test(group))) return false
  return halves.length === 2 ? count <= 7 : count === 8
}

/** Matching the URI itself would overflow the stack of the regular expression engine for a data URI of some MB. */
const NOT_IN_URI = /[^\w\-.~:/?#[\]@!$&'()*+,;=%]|%(?![\da-f]{2})/i

/** Implements the absolute URIs of RFC 3986: a scheme, and then only allowed characters and complete percent-encodings. */
function isUri(text: string): boolean {
  const scheme = /^[a-z][a-z\d+.-]{0,60}:/i.exec(text)
  if (scheme === null) return false
  const rest = text.slice(scheme[0].length)
  if (NOT_IN_URI.test(rest)) return false
  const fragment = rest.indexOf('#')
  if (fragment >= 0 && rest.includes('#', fragment + 1)) return false
  const authority = /^\/\/([^/?#]*)/.exec(rest)?.[1]
  return authority === undefined ? !/[[\]]/.test(rest) : isAuthority(authority)
}

function isAuthority(authority: string): boolean {
  const at = authority.lastIndexOf('@')
  if (/[@[\]]/.test(authority.slice(0, Math.max(0, at)))) return false
  const host = authority.slice(at + 1)
  if (!host.startsWith('[')) return /^[^:[\]]*(?::\d*)?$/.test(host)
  const literal = /^\[([^\]]*)\](?::\d*)?$/.exec(host)
  return literal !== null && isIpv6(literal[1] ?? '')
}

/** `encoded` is the part of a label after `xn--`. Returns true if it can be decoded, and the label follows the rules below. */
export function isEncodedLabel(encoded: string): boolean {
  const codePoints = decodePunycode(encoded)
  if (codePoints === null || codePoints.length === 0 || codePoints.every((code) => code < 0x80)) return false
  const label = String.fromCodePoint(...codePoints)
  return !BEGINS_WITH_MARK.test(label) && !DISALLOWED.test(label) && RULES.every((rule) => rule(label))
}

const BEGINS_WITH_MARK = /^\p{M}/u

/**
 * A label must not have hyphens as its third and fourth characters (RFC 5891, section 4.2.3.1), nor contain the characters that
 * RFC 5892, section 2.6, excludes, capital letters, control characters, surrogates or spaces.
 */
const DISALLOWED = /^..--|[\u0640\u07fa\u302e\u302f\u3031-\u3035\u303b\p{Lu}\p{Cc}\p{Cs}\p{Z}]/u

/** RFC 5892, appendix A, allows some characters only together with certain others. */
const RULES: readonly ((label: string) => boolean)[] = [
  // The middle dot of Catalan must be between two letters l.
  (label) => !/(?<!l)\u00b7|\u00b7(?!l)/u.test(label),
  // U+0375 must be followed by a Greek letter. U+05F3 and U+05F4 must follow a Hebrew letter.
  (label) => !/\u0375(?!\p{Script=Greek})/u.test(label),
  (label) => !/(?<!\p{Script=Hebrew})[\u05f3\u05f4]/u.test(label),
  (label) =>
    !label.includes('\u30fb') || /[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han}]/u.test(label),
  // The two kinds of Arabic digits must not be mixed.
  (label) => !(/[\u0660-\u0669]/.test(label) && /[\u06f0-\u06f9]/.test(label)),
  // A joiner must follow a virama.
  (label) =>
    !/(?<![\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u0f84\u1039])\u200d/u.test(label),
]

const BASE = 36
const T_MIN = 1
const T_MAX = 26

/** Returns null if the text is not valid Punycode (RFC 3492, section 6.2). */
function decodePunycode(encoded: string): number[] | null {
  const delimiter = encoded.lastIndexOf('-')
  const output = Array.from(encoded.slice(0, Math.max(0, delimiter)), (char) => char.charCodeAt(0))
  let code = 128
  let index = 0
  let bias = 72
  for (let at = delimiter + 1; at < encoded.length; ) {
    const before = index
    let weight = 1
    for (let k = BASE; ; k += BASE) {
      const digit = digitOf(encoded.charCodeAt(at++))
      if (digit === null) return null
      index += digit * weight
      const threshold = Math.min(T_MAX, Math.max(T_MIN, k - bias))
      if (digit < threshold) break
      weight *= BASE - threshold
    }
    const length = output.length + 1
    bias = adapt(index - before, length, before === 0)
    code += Math.floor(index / length)
    if (code > 0x10ffff) return null
    index %= length
    output.splice(index++, 0, code)
  }
  return output
}

function digitOf(char: number): number | null {
  if (char >= 0x30 && char <= 0x39) return char - 0x30 + 26
  if (char >= 0x61 && char <= 0x7a) return char - 0x61
  return char >= 0x41 && char <= 0x5a ? char - 0x41 : null
}

function adapt(delta: number, length: number, isFirst: boolean): number {
  let rest = Math.floor(delta / (isFirst ? 700 : 2))
  rest += Math.floor(rest / length)
  let k = 0
  for (; rest > ((BASE - T_MIN) * T_MAX) >> 1; k += BASE) rest = Math.floor(rest / (BASE - T_MIN))
  return k + Math.floor(((BASE - T_MIN + 1) * rest) / (rest + 38))
}
