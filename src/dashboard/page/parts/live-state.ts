/** Whether the figures come in as they are made. Only a loss and its end are read out. */
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
      announce('The connection is lost; reconnecting.', true)
    if (connection === 'live' && before.current === 'reconnecting') announce('Live again.')
    before.current = connection
  }, [connection])
  return html`<span class=${`live is-${connection}`}><span class="live-dot" aria-hidden="true"></span>${WORDS[connection]}</span>`
}
