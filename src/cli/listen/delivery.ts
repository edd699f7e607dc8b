/** A callback that `parley listen` received, formatted as a line of JSON or as text. */
import { parseExactly } from '../../json-text/read-json.ts'
import type { Verdict } from './verify.ts'

export interface Delivery {
  readonly receivedAtMs: number
  /** The path and query of the request. */
  readonly path: string
  readonly webhookId: string | null
  readonly verdict: Verdict
  readonly body: Buffer
  /** Earlier deliveries with the same webhook-id. */
  readonly earlier: number
  /** The status of our response. */
  readonly responseStatus: number
}

/** Longer values are truncated in the text format. */
const MAX_CHARACTERS = 200

/** The body is copied unparsed, so that no digit of a number is lost. */
export function deliveryJson(delivery: Delivery): string {
  const { receivedAtMs, path, webhookId, verdict, body, earlier, responseStatus } = delivery
  const fields = {
    received_at: receivedAtMs / 1000,
    verified: verdict.kind === 'verified',
    why: verdict.kind === 'verified' ? null : verdict.why,
    webhook_id: webhookId,
    times: earlier + 1,
    duplicate: earlier > 0,
    path,
    answered: responseStatus,
  }
  // In valid JSON, line ends occur only between tokens, so they can be replaced by spaces.
  const callback = body
    .toString('utf8')
    .trim()
    .replace(/[\r\n]+/g, ' ')
  return `${JSON.stringify(fields).slice(0, -1)},"callback":${callback}}`
}

export function deliveryText(delivery: Delivery): string {
  const { receivedAtMs, path, verdict, earlier, responseStatus } = delivery
  const callback = parseExactly(delivery.body.toString('utf8')) as Readonly<Record<string, unknown>>
  const { status, job_id, result, error, callback_payload } = callback
  const isCallback = typeof job_id === 'string' && typeof status === 'string'
  const what = isCallback
    ? `job ${shown(job_id)} ${shown(status)}`
    : 'not a Parley callback: job_id or status is missing'
  const title = verdict.kind === 'verified' ? 'verified' : 'NOT VERIFIED'
  const lines: [string, string][] = []
  if (verdict.kind !== 'verified') lines.push(['why', verdict.why])
  if (earlier > 0) {
    const times = earlier === 1 ? 'once' : `${earlier} times`
    lines.push(['duplicate', `this webhook-id was received ${times} before`])
  }
  if (!isCallback) lines.push(['body', shownJson(callback)])
  else if (error !== null && error !== undefined) lines.push(['error', shownJson(error)])
  else lines.push(['result', shownJson(contentOf(result))])
  if (callback_payload !== undefined) lines.push(['payload', shownJson(callback_payload)])
  lines.push(['answered', `${responseStatus} to POST ${shown(path)}`])
  const indented = lines.map(([name, value]) => `          ${name.padEnd(10)}${value}`)
  return [`${timeOf(receivedAtMs)}  ${title}: ${what}`, ...indented].join('\n')
}

/** The local time of day. */
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

/** Truncates long text, and escapes characters that would move a terminal's cursor or change the writing direction. */
export function shown(text: string): string {
  const characters = text.length > MAX_CHARACTERS ? [...text.slice(0, 2 * MAX_CHARACTERS)] : null
  const start = characters === null ? text : characters.slice(0, MAX_CHARACTERS).join('')
  const safe = start.replace(
    /[\p{Cc}\p{Bidi_Control}\p{Surrogate}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return start.length < text.length ? `${safe}… (${text.length} characters; --json shows everything)` : safe
}
