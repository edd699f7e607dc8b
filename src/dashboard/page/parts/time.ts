/** A time relative to now, for example `3 min ago`, which updates itself. The tooltip has the exact time. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { dateAndTime, NONE, relative } from '../format.ts'
import { serverNow } from '../live.ts'

const EVERY_MS = 10_000

export function Time({ at }: { readonly at: number | null }) {
  const [, setTicks] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setTicks((ticks) => ticks + 1), EVERY_MS)
    return () => clearInterval(timer)
  }, [])
  if (at === null) return html`<span class="muted">${NONE}</span>`
  return html`<time datetime=${new Date(at * 1000).toISOString()} title=${dateAndTime(at)}>
    ${relative(at, serverNow())}
  </time>`
}
