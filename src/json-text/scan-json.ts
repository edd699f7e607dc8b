/**
 * Finds positions in JSON text without parsing it, in linear time and without recursion. The text must be valid JSON, unless
 * the function accepts any text.
 */

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const BRACKET = 0x5b
const BRACKET_END = 0x5d
const BRACE = 0x7b
const BRACE_END = 0x7d
const SPACE = 0x20

/**
 * A loop reads strings of up to this many characters. For longer ones, a native search is faster although it takes longer to
 * start.
 */
const SHORT = 24

/**
 * Returns the index of the quote that ends a string. Without such a quote, returns the length of the text.
 * @param from the index after the opening quote
 */
export function stringEnd(text: string, from: number): number {
  const soon = Math.min(from + SHORT, text.length)
  for (let at = from; at < soon; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    if (code === BACKSLASH) at++
  }
  // A quote is escaped if an odd number of backslashes precedes it. The backslashes may go back to the beginning of the string.
  for (let at = from; ; at++) {
    at = text.indexOf('"', at)
    if (at === -1) return text.length
    let backslashes = 0
    while (at - 1 - backslashes >= from && text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return at
  }
}

/** Returns the index of the first character at or after `at` that is not white space. */
export function skipSpace(text: string, at: number): number {
  let end = at
  while (text.charCodeAt(end) <= SPACE) end++
  return end
}

/** Returns the index after the value that starts at `at`. */
export function valueEnd(text: string, at: number): number {
  const first = text.charCodeAt(at)
  if (first === QUOTE) return stringEnd(text, at + 1) + 1
  if (first === BRACE || first === BRACKET) return nestedEnd(text, at)
  let end = at
  // A number, true, false or null ends before white space, a comma or a bracket.
  for (; end < text.length; end++) {
    const code = text.charCodeAt(end)
    if (code <= SPACE || code === COMMA || code === BRACE_END || code === BRACKET_END) break
  }
  return end
}

function nestedEnd(text: string, from: number): number {
  let depth = 0
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = stringEnd(text, at + 1)
    else if (code === BRACE || code === BRACKET) depth++
    else if ((code === BRACE_END || code === BRACKET_END) && --depth === 0) return at + 1
  }
  return text.length
}

/** Whether arrays and objects are nested deeper than the limit. Accepts any text. */
export function isDeeperThan(text: string, limit: number): boolean {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = stringEnd(text, at + 1)
    else if (code === BRACE || code === BRACKET) {
      if (++depth > limit) return true
    } else if (code === BRACE_END || code === BRACKET_END) depth--
  }
  return false
}

/**
 * Whether nearly all of the text is in strings: it has at most `maxQuotes` quotes, including escaped ones, and at most
 * `maxOther` bytes outside strings. A parser only copies such a text, and creates few values. Accepts any bytes.
 */
export function isMostlyStrings(utf8: Buffer, maxQuotes: number, maxOther: number): boolean {
  let quotes = 0
  let other = 0
  let isInside = false
  /** The last quote before this index begins or ends a string. */
  let from = 0
  for (let at = utf8.indexOf(QUOTE); at !== -1; at = utf8.indexOf(QUOTE, at + 1)) {
    if (++quotes > maxQuotes) return false
    if (isInside && isEscaped(utf8, at, from)) continue
    if (!isInside) other += at - from
    isInside = !isInside
    from = at + 1
  }
  if (!isInside) other += utf8.length - from
  return other <= maxOther
}

function isEscaped(utf8: Buffer, at: number, from: number): boolean {
  let backslashes = 0
  while (at - 1 - backslashes >= from && utf8[at - 1 - backslashes] === BACKSLASH) backslashes++
  return backslashes % 2 === 1
}
