/**
 * Masks secrets in the messages of model servers, which may echo a request with the key and other secret settings. Secrets are
 * found in all usual spellings (JSON inside JSON, URLs), even if they overlap.
 */

export type Mask = (message: string) => string

/** An upstream's message is truncated to this length, which is enough to act on. */
export const MAX_UPSTREAM_MESSAGE_LENGTH = 300

/** Only this many characters of a message are searched for secrets, because far fewer are shown. */
export const MASKED_CHARACTERS = 65_536

/** Shorter secrets are not searched for in every spelling, because texts such as `openai` may be words that messages need. */
const LEAST_SECRET = 8
/**
 * If a message was cut, its end is hidden: this many characters for each character of the longest secret. An escaped spelling
 * seldom takes more.
 */
const MOST_SPELLED = 12

/**
 * @param secrets masked as written; those with LEAST_SECRET characters or more also in other spellings, and if the server
 * truncated them
 */
export function maskFor(secrets: readonly string[]): Mask {
  const written = new Set(
    secrets
      .filter((secret) => secret.trim() !== '')
      .flatMap((secret) => [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1)]),
  )
  const plain = new Set(secrets.map((secret) => plainOf(secret).text.trim()))
  for (const secret of plain) if (secret.length < LEAST_SECRET) plain.delete(secret)
  const longest = Math.max(0, ...secrets.map(({ length }) => length))
  return (message) => {
    const text = message.slice(0, MASKED_CHARACTERS)
    const hidden = new Uint8Array(text.length)
    for (const secret of written) {
      for (const at of occurrences(text, secret)) hidden.fill(1, at, at + secret.length)
    }
    if (plain.size > 0) hidePlain(text, plain, hidden)
    // The end could be the beginning of a secret that continues after the cut.
    if (message.length >= MASKED_CHARACTERS) hidden.fill(1, Math.max(0, text.length - longest * MOST_SPELLED))
    const masked = withoutHidden(text, hidden)
      .replace(/[\s\p{Cc}]+/gu, ' ')
      .trim()
      .replace(/\b(bearer|basic)\s+[^\s"',;]+/gi, '$1 ***')
      .replace(
        /\b(authorization|(?:x-)?api-key)(["']?\s*[:=]\s*["']?)(?!bearer|basic)[^\s"',;]+/gi,
        '$1$2***',
      )
      .replace(/\bsk-[\w*.-]{4,}/g, '***')
    return truncate(masked, MAX_UPSTREAM_MESSAGE_LENGTH)
  }
}

/** Servers put these characters after a truncated text. */
const ELLIPSIS = ' .…"\'`'

function* occurrences(text: string, part: string): Generator<number> {
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + 1)) yield at
}

function hidePlain(text: string, secrets: ReadonlySet<string>, hidden: Uint8Array): void {
  const { text: plain, starts, ends } = plainOf(text)
  let end = plain.length
  while (end > 0 && ELLIPSIS.includes(plain.charAt(end - 1))) end -= 1
  const uncut = plain.slice(0, end)
  for (const secret of secrets) {
    for (const at of occurrences(plain, secret)) {
      hidden.fill(1, starts[at], ends[at + secret.length - 1])
    }
    // Servers truncate what they echo, so a secret may be incomplete. A caller can even choose the place of the cut, by the
    // length of the conversation.
    for (let length = Math.min(secret.length - 1, end); length >= LEAST_SECRET; length--) {
      if (!uncut.endsWith(secret.slice(0, length))) continue
      hidden.fill(1, starts[end - length], ends[end - 1])
      break
    }
  }
}

function withoutHidden(text: string, hidden: Uint8Array): string {
  let shown = ''
  for (let from = 0; from < text.length; ) {
    const start = hidden.indexOf(1, from)
    if (start === -1) return shown + text.slice(from)
    shown += `${text.slice(from, start)}***`
    const end = hidden.indexOf(0, start)
    from = end === -1 ? text.length : end
  }
  return shown
}

const BACKSLASH = String.raw`(?:\\|%(?:25)*5[cC])`
/**
 * Matches escapes of JSON and most languages, percent-encoded bytes and white space, even if they were escaped several times.
 */
const SPELLED = new RegExp(
  String.raw`${BACKSLASH}+(?:u([\da-fA-F]{4})|x([\da-fA-F]{2})|([bfnrtv]))?|(?:(?!${BACKSLASH})%(?:25)*[\da-fA-F]{2})+|[\s\p{Cc}+]+`,
  'gu',
)

interface Plain {
  readonly text: string
  /** Each character of `text` has its spelling in the original between these two indexes. */
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

/** Returns a text that is the same for all spellings of a secret: without escapes, and with single spaces. */
function plainOf(spelled: string): Plain {
  const parts: string[] = []
  const starts = new Uint32Array(spelled.length)
  const ends = new Uint32Array(spelled.length)
  let length = 0
  let endsWithSpace = false
  let from = 0
  const addAsIs = (to: number) => {
    if (from === to) return
    parts.push(spelled.slice(from, to))
    for (let at = from; at < to; at++, length++) {
      starts[length] = at
      ends[length] = at + 1
    }
    endsWithSpace = false
  }
  for (const token of spelled.matchAll(SPELLED)) {
    addAsIs(token.index)
    from = token.index + token[0].length
    let text = unescaped(token)
    if (endsWithSpace && text.startsWith(' ')) {
      text = text.slice(1)
      ends[length - 1] = from
    }
    if (text === '') continue
    parts.push(text)
    starts.fill(token.index, length, length + text.length)
    ends.fill(from, length, length + text.length)
    length += text.length
    endsWithSpace = text.endsWith(' ')
  }
  addAsIs(spelled.length)
  return { text: parts.join(''), starts, ends }
}

/** The result is never longer than the token, because `plainOf` reserves no more space. */
function unescaped([token, unicode, byte, space]: RegExpExecArray): string {
  const code = unicode ?? byte
  if (code !== undefined) return simplified(String.fromCharCode(Number.parseInt(code, 16)))
  if (space !== undefined || /^[^\\%]/.test(token)) return ' '
  const bytes = token.replaceAll('\\', '').replaceAll(/%(?:25)*(?=[\da-fA-F]{2})/g, '')
  return simplified(Buffer.from(bytes, 'hex').toString('utf8'))
}

function simplified(text: string): string {
  return text.replaceAll('\\', '').replace(/[\s\p{Cc}+]+/gu, ' ')
}

function truncate(text: string, length: number): string {
  if (text.length <= length) return text
  // A cut between the halves of a surrogate pair would leave an invalid character.
  const end = /[\uD800-\uDBFF]/.test(text.charAt(length - 2)) ? length - 2 : length - 1
  return `${text.slice(0, end)}…`
}
