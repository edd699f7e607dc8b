/** Verifies callbacks, which are signed as Standard Webhooks (https://www.standardwebhooks.com) has it. */
import { type AnswerSchema, checked } from './answer-schema.ts'
import { ConfigurationError, WebhookVerificationError } from './errors.ts'
import type { Callback } from './job.ts'

/** `Headers`, or an object as Node, Express, Fastify and the serverless platforms have it. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

export interface VerifyOptions<T = unknown> {
  /** Seconds that the callback's time may differ from ours: 300 if absent. */
  readonly tolerance?: number | undefined
  /** When the callback came; now if absent. */
  readonly at?: Date | undefined
  /** Checks the answer and makes it typed. */
  readonly schema?: AnswerSchema<T> | undefined
  /** In place of `JSON.parse`. */
  readonly parseJson?: ((text: string) => unknown) | undefined
}

const TOLERANCE_S = 300
const PREFIX = 'whsec_'
/** Standard Webhooks gives the key's bytes a least number; a shorter one is a mistake. */
const LEAST_KEY_BYTES = 24

/**
 * The callback, once it is known to come from the server and to be recent. Callbacks may come twice: `job_id` tells.
 *
 * @param body exactly the bytes or the text that came; parsed and written again they may be others
 * @param secret the account's, `whsec_…`; several while one is being replaced
 */
export async function verify<T = unknown, P = unknown>(
  body: string | Uint8Array | ArrayBuffer,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  options: VerifyOptions<T> = {},
): Promise<Callback<T, P>> {
  const { tolerance = TOLERANCE_S, at = new Date(), schema, parseJson = JSON.parse } = options
  const keys = [secret].flat().map(keyBytes)
  if (keys.length === 0) throw new ConfigurationError('there is no secret to verify callbacks with')
  const id = header(headers, 'webhook-id')
  const timestamp = header(headers, 'webhook-timestamp')
  const given = header(headers, 'webhook-signature').split(' ').flatMap(signatureOf)
  refuseOtherTimes(timestamp, at, tolerance)
  const bytes = typeof body === 'string' ? encoder.encode(body) : new Uint8Array(body)
  const signed = joined(encoder.encode(`${id}.${timestamp}.`), bytes)
  const right = await Promise.all(keys.map((key) => digest(key, signed)))
  // All are compared to the end, so that the time it takes says nothing.
  const matches = right.flatMap((one) => given.map((other) => areEqual(one, other)))
  if (!matches.includes(true)) {
    const message = 'the signature is not one of this secret and this body; give the body exactly as it came'
    throw new WebhookVerificationError('wrong signature', message)
  }
  return checked(parsedCallback<T, P>(bytes, parseJson), schema)
}

/**
 * The headers that a callback with this body would carry, for tests of a receiver.
 *
 * @param message `id` is the job's
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
  if (bytes === null || bytes.length < LEAST_KEY_BYTES) {
    throw new ConfigurationError('the webhook secret is none: it is whsec_ and base64, as Parley prints it')
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

/** The signatures of the one scheme there is; others are left aside, as the standard asks for. */
function signatureOf(text: string): Uint8Array[] {
  const bytes = text.startsWith('v1,') ? base64Bytes(text.slice('v1,'.length)) : null
  return bytes === null ? [] : [bytes]
}

function refuseOtherTimes(timestamp: string, at: Date, tolerance: number): void {
  if (!/^\d{1,15}$/.test(timestamp)) {
    throw new WebhookVerificationError('bad timestamp', 'webhook-timestamp is no number of seconds')
  }
  const ageS = Math.floor(at.getTime() / 1000) - Number(timestamp)
  if (ageS > tolerance) {
    throw new WebhookVerificationError(
      'too old',
      `the callback was sent ${ageS} s ago: a replay, or a clock that is off`,
    )
  }
  if (-ageS > tolerance) {
    throw new WebhookVerificationError(
      'too new',
      `the callback comes ${-ageS} s from the future: a clock is off`,
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

/** Looks at every byte, wherever they differ first. */
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
    throw new WebhookVerificationError('bad body', 'the signature is right, but the body is not JSON', cause)
  }
  throw new WebhookVerificationError('bad body', 'the signature is right, but the body is no callback')
}
