/** Stores the admin token, the operator's name, and the playground's API key until the operator signs out or closes the tab. */
import { CONTROLS, MAX_CHARACTERS } from '../../admin/operator-name.ts'

const TOKEN = 'parley.admin-token'
const OPERATOR = 'parley.operator'
const KEY = 'parley.playground-key'

let signOutReason: string | null = null
const listeners = new Set<() => void>()

export const adminToken = (): string | null => sessionStorage.getItem(TOKEN)
/** The audit log records this name. Null means that the operator entered none. */
export const operatorName = (): string | null => sessionStorage.getItem(OPERATOR)
export const playgroundKey = (): string | null => sessionStorage.getItem(KEY)

/** Returns why the operator was signed out; null if there is no reason to show. */
export const signInNotice = (): string | null => signOutReason

/** @param name the operator's name; empty for none */
export function signIn(token: string, name: string): void {
  signOutReason = null
  sessionStorage.setItem(TOKEN, token)
  setOperatorName(name)
}

/** @param name the operator's name; empty for none */
export function setOperatorName(name: string): void {
  if (name === '') sessionStorage.removeItem(OPERATOR)
  else sessionStorage.setItem(OPERATOR, name)
  notify()
}

/** Returns what is wrong with a name, or null if the name is valid. */
export function operatorNameProblem(name: string): string | null {
  if ([...name].length > MAX_CHARACTERS) return `The name can have at most ${MAX_CHARACTERS} characters.`
  return CONTROLS.test(name) ? 'The name cannot contain control characters.' : null
}

/** @param reason shown on the sign-in page */
export function signOut(reason: string | null = null): void {
  signOutReason = reason
  // A different person may sign in next, so the playground's draft must also be removed.
  sessionStorage.clear()
  notify()
}

export function keepPlaygroundKey(key: string | null): void {
  if (key === null) sessionStorage.removeItem(KEY)
  else sessionStorage.setItem(KEY, key)
}

export function onSessionChange(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

function notify(): void {
  for (const listener of listeners) listener()
}
