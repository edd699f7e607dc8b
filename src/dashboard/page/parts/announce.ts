/** Announces the result of an action: the page shows it for a few seconds, and screen readers read it once. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'

interface Announcement {
  readonly text: string
  readonly isError: boolean
  /** `isShown` is false if the page shows the result anyway. Only screen readers then need the announcement. */
  readonly isShown: boolean
  readonly number: number
}

const SHOWN_MS = 6000
let show: (announcement: Announcement) => void = () => {}
let announcements = 0

export function announce(text: string, isError = false, isShown = true): void {
  announcements += 1
  show({ text, isError, isShown, number: announcements })
}

/** The element is always present, because screen readers often ignore a live region that is added together with its text. */
export function Announcements() {
  const [current, setCurrent] = useState<Announcement | null>(null)
  show = setCurrent
  useEffect(() => {
    if (!current) return
    const timer = setTimeout(() => setCurrent(null), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [current])
  return html`<div class="announcements" role="status" aria-live="polite">
    ${current && html`<p key=${current.number} class=${!current.isShown ? 'visually-hidden' : current.isError ? 'notice is-error' : 'notice'}>${current.text}</p>`}
  </div>`
}
