/** Defines which names of operators are valid. The dashboard's page loads this file, so it must not import anything. */

export const MAX_CHARACTERS = 64
/** Such characters move a terminal's cursor, change the writing direction or end a line. */
export const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

export function isOperatorName(name: string): boolean {
  return name !== '' && [...name].length <= MAX_CHARACTERS && !CONTROLS.test(name)
}
