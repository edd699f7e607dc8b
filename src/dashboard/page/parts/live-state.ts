/** Shows whether the figures are live. Screen readers announce only that the connection was lost or restored. */
import { html } from 'htm/preact'
import { useEffect, useRef } from 'preact/hooks'
import { type Connection, useLive } from '../live.ts'
import { announce } from './announce.ts'

const WORDS: Readonly<Record<Connection, string>> = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting',
}

export function LiveState() {
  const { connection } = useLive()
  const before = useRef<Connection>('connecting')
  useEffect(() => {
    if (connection === 'reconnecting' && before.current === 'live')
      announce('The connection was lost. Reconnecting.', true)
    if (connection === 'live' && before.current === 'reconnecting') announce('The connection is restored.')
    before.current = connection
  }, [connection])
  return html`<span class=${`live is-${connection}`}><span class="live-dot" aria-hidden="true"></span>${WORDS[connection]}</span>`
}
