/** Defines the URLs of the pages below `/dashboard`, and navigates without loading a new document. */
import { useEffect, useState } from 'preact/hooks'

export const HOME = '/dashboard'

export interface Place {
  /** `parts` contains the path segments below `/dashboard`, such as `['jobs', ID]`. The overview has none. */
  readonly parts: readonly string[]
  readonly query: URLSearchParams
}

const listeners = new Set<() => void>()
let hasMoved = false

/** Returns true once the operator has gone to another page or filter without loading a new document. */
export const hasNavigated = (): boolean => hasMoved

export function address(parts: readonly string[], query: Readonly<Record<string, string>> = {}): string {
  const path = [HOME, ...parts.map(encodeURIComponent)].join('/')
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString()
  return search === '' ? path : `${path}?${search}`
}

export function navigate(to: string): void {
  if (to === location.pathname + location.search) return
  history.pushState(null, '', to)
  moved()
  scrollTo(0, 0)
}

export function usePlace(): Place {
  const [place, setPlace] = useState(current)
  useEffect(() => {
    const update = () => setPlace(current())
    listeners.add(update)
    return () => void listeners.delete(update)
  }, [])
  return place
}

/** Clicks on links inside the dashboard do not load a new document. */
export function followLinks(): void {
  addEventListener('popstate', moved)
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (link?.target !== '' || link.origin !== location.origin || link.hash !== '') return
    if (link.pathname !== HOME && !link.pathname.startsWith(`${HOME}/`)) return
    event.preventDefault()
    navigate(link.pathname + link.search)
  })
}

function moved(): void {
  hasMoved = true
  for (const listener of listeners) listener()
}

function current(): Place {
  const below = location.pathname.slice(HOME.length)
  const parts = below.split('/').filter((part) => part !== '')
  return { parts: parts.map(decoded), query: new URLSearchParams(location.search) }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
