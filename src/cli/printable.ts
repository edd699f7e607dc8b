/** Escapes untrusted text for a terminal, so that it cannot move the cursor, change the writing direction or set colours. */
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** @param maxLength longer text is truncated */
export function printable(text: string, maxLength = Number.POSITIVE_INFINITY): string {
  const shown = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text
  return shown.replace(CONTROLS, escaped)
}

function escaped(character: string): string {
  if (character === '\n') return '\\n'
  return `\\u{${character.codePointAt(0)?.toString(16)}}`
}
