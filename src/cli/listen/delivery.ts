/** One callback that arrived, as a line of JSON for programs and as a few lines for people. */
import { parseExactly } from '../../http/json-body.ts'
import type { Verdict } from './verify.ts'

export interface Delivery {
  readonly atMs: number
  /** Path and query that it was sent to. */
  readonly path: string
  readonly webhookId: string | null
  readonly verdict: Verdict
  readonly body: Buffer
  /** Earlier arrivals with the same webhook-id. */
  readonly before: number
  /** The status that it is answered with. */
  readonly answered: number
}

/** Longer values are shortened for people. */
const SHOWN_CHARACTERS = 200

/** The callback itself stands in it as it came, so that no digit of a number is lost. */
export function deliveryJson({ atMs, path, webhookId, verdict, body, before, answered }: Delivery): string {
  const about = {
    received_at: atMs / 1000,
    verified: verdict.kind === 'verified',
    why: verdict.kind === 'verified' ? null : verdict.why,
    webhook_id: webhookId,
    times: before + 1,
    duplicate: before > 0,
    path,
    answered,
  }
  // Between the tokens of valid JSON, and nowhere else, a line may end.
  const callback = body
    .toString('utf8')
    .trim()
    .replace(/[\r\n]+/g, ' ')
  return `${JSON.stringify(about).slice(0, -1)},"callback":${callback}}`
}

export function deliveryText(arrival: Delivery): string {
  const { atMs, path, verdict, before, answered } = arrival
  const callback = parseExactly(arrival.body) as Readonly<Record<string, unknown>>
  const { status, job_id, result, error, callback_payload } = callback
  const known = typeof job_id === 'string' && typeof status === 'string'
  const what = known
    ? `job ${shown(job_id)} ${shown(status)}`
    : 'no callback of Parley: it has no job_id and status'
  const title = verdict.kind === 'verified' ? 'verified' : 'NOT VERIFIED'
  const lines: [string, string][] = []
  if (verdict.kind !== 'verified') lines.push(['why', verdict.why])
  if (before > 0)
    lines.push(['duplicate', `this webhook-id came ${before === 1 ? 'once' : `${before} times`} before`])
  if (!known) lines.push(['body', shownJson(callback)])
  else if (error !== null && error !== undefined) lines.push(['error', shownJson(error)])
  else lines.push(['result', shownJson(contentOf(result))])
  if (callback_payload !== undefined) lines.push(['payload', shownJson(callback_payload)])
  lines.push(['answered', `${answered} to POST ${shown(path)}`])
  const indented = lines.map(([name, value]) => `          ${name.padEnd(10)}${value}`)
  return [`${timeOf(atMs)}  ${title}: ${what}`, ...indented].join('\n')
}

/** The time of day where the user is. */
export function timeOf(atMs: number): string {
  const at = new Date(atMs)
  return [at.getHours(), at.getMinutes(), at.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':')
}

function contentOf(result: unknown): unknown {
  const isWrapped = typeof result === 'object' && result !== null && 'response_content' in result
  return isWrapped ? result.response_content : result
}

function shownJson(value: unknown): string {
  return shown(JSON.stringify(value) ?? 'null')
}

/** Cut short, and without characters that would move a terminal's cursor or turn its text around. */
export function shown(text: string): string {
  const characters = text.length > SHOWN_CHARACTERS ? [...text.slice(0, 2 * SHOWN_CHARACTERS)] : null
  const start = characters === null ? text : characters.slice(0, SHOWN_CHARACTERS).join('')
  const safe = start.replace(
    /[\p{Cc}\p{Bidi_Control}\p{Surrogate}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return start.length < text.length ? `${safe}… (${text.length} characters; --json shows all)` : safe
}
