/**
 * The rule for names of operators in the audit log. The dashboard's page uses it as well, so this file must not import
 * anything.
 */

export const MAX_CHARACTERS = 64
/** Characters that would move a terminal's cursor, change the writing direction or end a line. */
export const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

export function isOperatorName(name: string): boolean {
  return name !== '' && [...name].length <= MAX_CHARACTERS && !CONTROLS.test(name)
}
