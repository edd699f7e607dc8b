/** Checks the labels of host names that encode other scripts ("A-labels", such as `xn--mnchen-3ya`), by RFC 5891 and 5892. */

/** Whether what follows `xn--` encodes a label that may be registered. Labels have 63 characters at most. */
export function isEncodedLabel(encoded: string): boolean {
  const codePoints = decodePunycode(encoded)
  if (codePoints === null || codePoints.length === 0 || codePoints.every((code) => code < 0x80)) return false
  const label = String.fromCodePoint(...codePoints)
  return !BEGINS_WITH_MARK.test(label) && !DISALLOWED.test(label) && RULES.every((rule) => rule(label))
}

const BEGINS_WITH_MARK = /^\p{M}/u

/** RFC 5891, section 4.2.3.1, and RFC 5892, section 2.6; nor do upper case, controls and spaces have a place. */
const DISALLOWED = /^..--|[\u0640\u07fa\u302e\u302f\u3031-\u3035\u303b\p{Lu}\p{Cc}\p{Cs}\p{Z}]/u

/** RFC 5892, appendix A: characters that are allowed only next to certain others. */
const RULES: readonly ((label: string) => boolean)[] = [
  // The middle dot of Catalan, between two letters l.
  (label) => !/(?<!l)\u00b7|\u00b7(?!l)/u.test(label),
  // Before a Greek letter, and after a Hebrew one.
  (label) => !/\u0375(?!\p{Script=Greek})/u.test(label),
  (label) => !/(?<!\p{Script=Hebrew})[\u05f3\u05f4]/u.test(label),
  (label) =>
    !label.includes('\u30fb') || /[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han}]/u.test(label),
  // Two kinds of Arabic digits are not mixed.
  (label) => !(/[\u0660-\u0669]/.test(label) && /[\u06f0-\u06f9]/.test(label)),
  // A joiner stands after a virama.
  (label) =>
    !/(?<![\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u0f84\u1039])\u200d/u.test(label),
]

const BASE = 36
const T_MIN = 1
const T_MAX = 26

/** RFC 3492, section 6.2; null for what encodes nothing. */
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
