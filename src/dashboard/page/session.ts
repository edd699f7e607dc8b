/** Who is signed in: the admin token, the operator's name, and the playground's API key. All live as long as the tab. */

const TOKEN = 'parley.admin-token'
const OPERATOR = 'parley.operator'
const KEY = 'parley.playground-key'

const LONGEST_NAME = 64
/** What would move a cursor, turn the writing or end a line. */
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

let notice: string | null = null
const listeners = new Set<() => void>()

export const adminToken = (): string | null => sessionStorage.getItem(TOKEN)
/** As the audit log is to have it; null where nobody said. */
export const operatorName = (): string | null => sessionStorage.getItem(OPERATOR)
export const playgroundKey = (): string | null => sessionStorage.getItem(KEY)

/** Why the sign-in page is shown again; null at first. */
export const signInNotice = (): string | null => notice

/** @param name as for `setOperatorName` */
export function signIn(token: string, name: string): void {
  notice = null
  sessionStorage.setItem(TOKEN, token)
  setOperatorName(name)
}

/** @param name empty for none */
export function setOperatorName(name: string): void {
  if (name === '') sessionStorage.removeItem(OPERATOR)
  else sessionStorage.setItem(OPERATOR, name)
  tell()
}

/** What is wrong with a name; null where nothing is. */
export function operatorNameProblem(name: string): string | null {
  if ([...name].length > LONGEST_NAME) return `A name has at most ${LONGEST_NAME} characters.`
  return CONTROLS.test(name) ? 'A name has no control characters.' : null
}

/** @param why shown where the token is asked for */
export function signOut(why: string | null = null): void {
  notice = why
  // The playground's draft goes too: whoever signs in next need not be the same.
  sessionStorage.clear()
  tell()
}

export function keepPlaygroundKey(key: string | null): void {
  if (key === null) sessionStorage.removeItem(KEY)
  else sessionStorage.setItem(KEY, key)
}

export function onSessionChange(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

function tell(): void {
  for (const listener of listeners) listener()
}
