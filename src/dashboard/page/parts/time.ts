/** A moment, as a distance from now that keeps itself true, with the exact time behind it. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { dateAndTime, NONE, relative } from '../format.ts'
import { serverNow } from '../live.ts'

const EVERY_MS = 10_000

export function Time({ at }: { readonly at: number | null }) {
  const [, setTurn] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setTurn((turn) => turn + 1), EVERY_MS)
    return () => clearInterval(timer)
  }, [])
  if (at === null) return html`<span class="muted">${NONE}</span>`
  return html`<time datetime=${new Date(at * 1000).toISOString()} title=${dateAndTime(at)}>
    ${relative(at, serverNow())}
  </time>`
}
