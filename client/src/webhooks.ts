/** Verifies and signs callbacks according to Standard Webhooks (https://www.standardwebhooks.com). */
import { type AnswerSchema, withCheckedAnswer } from './answer-schema.ts'
import { ConfigurationError, WebhookVerificationError } from './errors.ts'
import type { Callback } from './job.ts'

/** Accepts `Headers`, or the headers object of Node, Express, Fastify or a serverless platform. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

export interface VerifyOptions<T = unknown> {
  /** The callback's timestamp may differ from the current time by this many seconds, 300 if absent. */
  readonly tolerance?: number | undefined
  /** When the callback was received. The default is the current time. */
  readonly at?: Date | undefined
  /** Validates the answer, and determines its type. */
  readonly schema?: AnswerSchema<T> | undefined
  /** Replaces `JSON.parse`. */
  readonly parseJson?: ((text: string) => unknown) | undefined
}

const TOLERANCE_S = 300
const PREFIX = 'whsec_'
/** A shorter secret is rejected, because Standard Webhooks requires at least this many bytes. */
const MIN_KEY_BYTES = 24

/**
 * Resolves with the callback. Throws `WebhookVerificationError` if the callback cannot be trusted, and `ConfigurationError` if
 * a secret is not valid. A callback may arrive twice: use `job_id` to detect duplicates.
 *
 * @param body the unchanged bytes or text of the request; parsing and serializing could change it
 * @param secret the account's secret (`whsec_…`), or both secrets during a rotation
 */
export async function verify<T = unknown, P = unknown>(
  body: string | Uint8Array | ArrayBuffer,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  options: VerifyOptions<T> = {},
): Promise<Callback<T, P>> {
  const { tolerance = TOLERANCE_S, at = new Date(), schema, parseJson = JSON.parse } = options
  const keys = [secret].flat().map(keyBytes)
  if (keys.length === 0) throw new ConfigurationError('no secret is set to verify callbacks with')
  const id = header(headers, 'webhook-id')
  const timestamp = header(headers, 'webhook-timestamp')
  const given = header(headers, 'webhook-signature').split(' ').flatMap(signatureOf)
  assertRecent(timestamp, at, tolerance)
  const bytes = typeof body === 'string' ? encoder.encode(body) : new Uint8Array(body)
  const signed = joined(encoder.encode(`${id}.${timestamp}.`), bytes)
  const expected = await Promise.all(keys.map((key) => digest(key, signed)))
  // All signatures are compared completely, so that the duration does not reveal which one matched.
  const matches = expected.flatMap((one) => given.map((other) => areEqual(one, other)))
  if (!matches.includes(true)) {
    const message =
      'the signature does not match this secret and this body; pass the body unchanged, exactly as it was received'
    throw new WebhookVerificationError('wrong signature', message)
  }
  return withCheckedAnswer(parsedCallback<T, P>(bytes, parseJson), schema)
}

/**
 * Returns the headers with which the server would send this body, for tests of a receiver.
 *
 * @param message `id` is the job ID
 */
export async function sign(
  body: string,
  secret: string,
  message: { readonly id: string; readonly at?: Date },
): Promise<Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string>> {
  const timestamp = String(Math.floor((message.at ?? new Date()).getTime() / 1000))
  const signature = await digest(keyBytes(secret), encoder.encode(`${message.id}.${timestamp}.${body}`))
  return {
    'webhook-id': message.id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${btoa(String.fromCharCode(...signature))}`,
  }
}

const encoder = new TextEncoder()

function keyBytes(secret: string): Uint8Array<ArrayBuffer> {
  const bytes = base64Bytes(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret)
  if (bytes === null || bytes.length < MIN_KEY_BYTES) {
    throw new ConfigurationError('the webhook secret must be whsec_ followed by base64, as Parley prints it')
  }
  return bytes
}

function base64Bytes(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
  } catch {
    return null
  }
}

function header(headers: WebhookHeaders, name: string): string {
  const value = isHeaders(headers) ? headers.get(name) : valueByName(headers, name)
  if (typeof value === 'string' && value !== '') return value
  throw new WebhookVerificationError('missing header', `the header ${name} is missing`)
}

function isHeaders(headers: WebhookHeaders): headers is { get(name: string): string | null } {
  return typeof headers.get === 'function'
}

function valueByName(headers: Exclude<WebhookHeaders, { get(name: string): unknown }>, name: string) {
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  return Array.isArray(found) ? found.join(' ') : found
}

/** Returns an empty list for text that is not base64, and for other versions than `v1`, which receivers must ignore. */
function signatureOf(text: string): Uint8Array[] {
  const bytes = text.startsWith('v1,') ? base64Bytes(text.slice('v1,'.length)) : null
  return bytes === null ? [] : [bytes]
}

function assertRecent(timestamp: string, at: Date, tolerance: number): void {
  if (!/^\d{1,15}$/.test(timestamp)) {
    throw new WebhookVerificationError('bad timestamp', 'webhook-timestamp is not a number of seconds')
  }
  const ageS = Math.floor(at.getTime() / 1000) - Number(timestamp)
  if (ageS > tolerance) {
    throw new WebhookVerificationError(
      'too old',
      `the callback was sent ${ageS} s ago; at most ${tolerance} s are allowed: it is a replay, or a clock is wrong`,
    )
  }
  if (-ageS > tolerance) {
    throw new WebhookVerificationError(
      'too new',
      `the callback's timestamp is ${-ageS} s in the future; at most ${tolerance} s are allowed: a clock is wrong`,
    )
  }
}

function joined(head: Uint8Array, tail: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(head.length + tail.length)
  whole.set(head)
  whole.set(tail, head.length)
  return whole
}

async function digest(key: Uint8Array<ArrayBuffer>, data: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  const imported = await crypto.subtle.importKey('raw', key, hmac, false, ['sign'])
  return new Uint8Array(await crypto.subtle.sign('HMAC', imported, data))
}

/** Compares in constant time, so that the duration reveals nothing about the signature. */
function areEqual(right: Uint8Array, given: Uint8Array): boolean {
  if (right.length !== given.length) return false
  let difference = 0
  for (const [index, byte] of right.entries()) difference |= byte ^ (given[index] ?? 0)
  return difference === 0
}

function parsedCallback<T, P>(bytes: Uint8Array, parseJson: (text: string) => unknown): Callback<T, P> {
  try {
    const callback = parseJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Callback<T, P>
    if (typeof callback.job_id === 'string') return callback
  } catch (cause) {
    throw new WebhookVerificationError('bad body', 'the signature is valid, but the body is not JSON', cause)
  }
  throw new WebhookVerificationError('bad body', 'the signature is valid, but the body is not a callback')
}
