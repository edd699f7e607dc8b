/** Formats numbers, durations, times and JSON for the dashboard. */

// With a POSIX locale, a browser may report a language that `Intl` rejects, such as `en-US@posix`. uPlot would then fail to
// load.
try {
  new Intl.NumberFormat(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en', configurable: true })
}

const whole = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en-GB', { notation: 'compact', maximumFractionDigits: 1 })
const full = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })
const clockMs = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
})
const dayAndMonth = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })

const money = new Intl.NumberFormat('en-GB', { minimumFractionDigits: 2, maximumFractionDigits: 6 })

/** The amount is in millionths of the currency. */
export const amount = (micros: number): string => money.format(micros / 1_000_000)

export const NONE = '–'

export function count(value: number | null): string {
  if (value === null) return NONE
  return Math.abs(value) < 100_000 ? whole.format(value) : short.format(value)
}

export const exact = (value: number): string => whole.format(value)

/**
 * Formats a number with its noun: `1 job`, `1,250 jobs`.
 * @param noun in the singular; its plural must end with `s`
 */
export const counted = (value: number, noun: string): string =>
  `${exact(value)} ${noun}${value === 1 ? '' : 's'}`

export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB']
  let at = 0
  let left = value
  for (; left >= 1000 && at < units.length - 1; at++) left /= 1000
  return `${figure(left)} ${units[at]}`
}

/** Formats a rate or a mean with about three digits. */
export function figure(value: number): string {
  if (value >= 100) return count(value)
  if (value >= 10) return value.toFixed(1).replace(/\.0$/, '')
  return value.toFixed(2).replace(/\.?0+$/, '')
}

export function duration(ms: number | null): string {
  if (ms === null) return NONE
  if (ms === 0) return '0'
  if (ms < 1) return '<1 ms'
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${figure(ms / 1000)} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 3600) return joined(Math.floor(seconds / 60), 'min', seconds % 60, 's')
  const minutes = Math.round(seconds / 60)
  if (minutes < 2880) return joined(Math.floor(minutes / 60), 'h', minutes % 60, 'min')
  return `${Math.round(minutes / 1440)} days`
}

function joined(more: number, unit: string, less: number, lessUnit: string): string {
  return less === 0 ? `${more} ${unit}` : `${more} ${unit} ${less} ${lessUnit}`
}

/** Formats the time between two times: `3 min ago`, `in 2 h`, `just now`. */
export function relative(seconds: number, nowSeconds: number): string {
  const ms = (nowSeconds - seconds) * 1000
  if (Math.abs(ms) < 2000) return 'just now'
  const rounded = Math.abs(ms) < 60_000 ? Math.round(Math.abs(ms) / 1000) * 1000 : Math.abs(ms)
  const [text = ''] = /^\d+(\.\d+)? \S+/.exec(duration(rounded)) ?? []
  return ms > 0 ? `${text} ago` : `in ${text}`
}

export const dateAndTime = (seconds: number): string => full.format(seconds * 1000)
export const timeOfDay = (seconds: number): string => clock.format(seconds * 1000)
export const timeOfDayMs = (seconds: number): string => clockMs.format(seconds * 1000)
export const day = (seconds: number): string => dayAndMonth.format(seconds * 1000)

/**
 * The beginning is the time, and stays the same for about a minute. The end is random, and distinguishes jobs of the same time.
 */
export const shortId = (id: string): string => `${id.slice(0, 8)}…${id.slice(-6)}`

/** Indents JSON text. Returns any other text unchanged. */
export function pretty(text: string): string {
  try {
    return JSON.stringify(parseExactly(text), null, 2)
  } catch {
    return text
  }
}

/** If the browser supports raw JSON, `JSON.stringify` writes the parsed numbers with their original digits. */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, keepDigits)
}

interface RawJson {
  rawJSON?: (text: string) => unknown
}

function keepDigits(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  const { rawJSON } = JSON as RawJson
  if (typeof value !== 'number' || context?.source === undefined || !rawJSON) return value
  return String(value) === context.source ? value : rawJSON(context.source)
}

export function contentText(content: unknown): string {
  return typeof content === 'string' ? content : JSON.stringify(content, null, 2)
}
