/** Calculates calendar months in UTC, such as `2026-11`. Usage and caps count by month. */

let known = { month: '', fromMs: 0, toMs: 0 }

export function monthOf(atMs: number): string {
  // The month is remembered, because this function runs for each job and the result is the same for weeks.
  if (atMs < known.fromMs || atMs >= known.toMs) known = spanOf(atMs)
  return known.month
}

export function monthEndsMs(atMs: number): number {
  return spanOf(atMs).toMs
}

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
