/** Text from strangers, for a terminal: what would move the cursor, turn the writing or change colours is shown, not done. */
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** @param most characters after which it is cut */
export function printable(text: string, most = Number.POSITIVE_INFINITY): string {
  const shown = text.length > most ? `${text.slice(0, most)}…` : text
  return shown.replace(CONTROLS, escaped)
}

function escaped(character: string): string {
  if (character === '\n') return '\\n'
  return `\\u{${character.codePointAt(0)?.toString(16)}}`
}
