/** Applies the colour scheme of the system, until the user chooses one. */
export type Theme = 'system' | 'light' | 'dark'

const STORED = 'parley.theme'
const dark = matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()

function theme(): Theme {
  const stored = localStorage.getItem(STORED)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}

export const isDark = (): boolean => (theme() === 'system' ? dark.matches : theme() === 'dark')

export function setTheme(next: Theme): void {
  if (next === 'system') localStorage.removeItem(STORED)
  else localStorage.setItem(STORED, next)
  apply()
}

export function beginTheme(): void {
  dark.addEventListener('change', apply)
  apply()
}

/** Calls `listener` when the colours change. Charts are on a canvas, so they must then be drawn again. */
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light'
  for (const listener of listeners) listener()
}
