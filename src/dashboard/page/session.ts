/** Who is signed in: the admin token, and the playground's API key. Both live as long as the tab. */

const TOKEN = 'parley.admin-token'
const KEY = 'parley.playground-key'

let notice: string | null = null
const listeners = new Set<() => void>()

export const adminToken = (): string | null => sessionStorage.getItem(TOKEN)
export const playgroundKey = (): string | null => sessionStorage.getItem(KEY)

/** Why the sign-in page is shown again; null at first. */
export const signInNotice = (): string | null => notice

export function signIn(token: string): void {
  notice = null
  sessionStorage.setItem(TOKEN, token)
  tell()
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
