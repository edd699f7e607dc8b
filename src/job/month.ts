/** Calendar months in UTC, as `2026-11`: the span that usage is summed over and caps count in. */

let known = { month: '', fromMs: 0, toMs: 0 }

/** The month of a moment. */
export function monthOf(atMs: number): string {
  // Asked for each job, and the answer stays the same for weeks.
  if (atMs < known.fromMs || atMs >= known.toMs) known = spanOf(atMs)
  return known.month
}

/** The first moment after the month of this one. */
export function monthEndsMs(atMs: number): number {
  return spanOf(atMs).toMs
}

/** Whether a text is a month as `monthOf` writes it. */
export function isMonth(text: string): boolean {
  return /^\d{4}-(0[1-9]|1[0-2])$/.test(text)
}

function spanOf(atMs: number) {
  const at = new Date(atMs)
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()]
  return {
    month: at.toISOString().slice(0, 7),
    fromMs: Date.UTC(year, month),
    toMs: Date.UTC(year, month + 1),
  }
}
