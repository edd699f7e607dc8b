/** Says what an action came to: shown for a while, and read out once by screen readers. */
import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'

interface Notice {
  readonly text: string
  readonly isError: boolean
  /** False where the page shows it already, and it is only to be read out. */
  readonly isShown: boolean
  readonly number: number
}

const SHOWN_MS = 6000
let tell: (notice: Notice) => void = () => {}
let notices = 0

export function announce(text: string, isError = false, isShown = true): void {
  notices += 1
  tell({ text, isError, isShown, number: notices })
}

/** Stands in the page once, and always: a live region that is added with its text is often not read. */
export function Announcements() {
  const [notice, setNotice] = useState<Notice | null>(null)
  tell = setNotice
  useEffect(() => {
    if (!notice) return
    const timer = setTimeout(() => setNotice(null), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [notice])
  return html`<div class="announcements" role="status" aria-live="polite">
    ${notice && html`<p key=${notice.number} class=${!notice.isShown ? 'visually-hidden' : notice.isError ? 'notice is-error' : 'notice'}>${notice.text}</p>`}
  </div>`
}
