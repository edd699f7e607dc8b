/** The signed POST of SPEC §6, or an event, which reports an outcome to a caller's own server. */
import { endingOf } from '../job/ending.ts'
import type { CallbackEvent } from '../job/job.ts'
import { jobRecordJson, type MetadataById } from '../job/job-record.ts'
import type { PostRequest } from '../net/post.ts'
import { sign } from '../net/signature.ts'
import type { Secrets } from '../store/account-store.ts'
import type { CallbackBody } from '../store/callback-store.ts'

/** How long the secret before a rotation signs in addition to the new one. */
const ROTATION_MS = 86_400_000

export interface SignableBody extends CallbackBody {
  readonly secrets: Secrets
  /** Needed if the callback includes the metadata of the job. */
  readonly metadata?: MetadataById
}

/** The payload is sent as the text that was stored. */
export function callbackRequest(signable: SignableBody, nowMs: number): PostRequest {
  const { callback, view, secrets, metadata } = signable
  const body = callback.event
    ? eventJson(callback.event, signable)
    : `${jobRecordJson(view, callback.include, metadata).slice(0, -1)},"callback_payload":${callback.payloadJson}}`
  const timestampS = Math.floor(nowMs / 1000)
  return {
    url: callback.url,
    body,
    headers: {
      // One of the caller's own replaces it.
      ...(callback.traceparent !== undefined && { traceparent: callback.traceparent }),
      ...callback.headers,
      'content-type': 'application/json',
      'webhook-id': view.id,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': sign(secretsInForce(secrets, nowMs), view.id, timestampS, body),
    },
  }
}

/** The same for every attempt, so that receivers recognize a repeated event. */
function eventJson({ of, idPrefix, ending }: CallbackEvent, { view, endedAtMs }: CallbackBody): string {
  return JSON.stringify({
    id: `evt_${view.id}`,
    object: 'event',
    created_at: Math.floor(endedAtMs / 1000),
    type: `${of}.${ending ?? endingOf(view)}`,
    data: { id: `${idPrefix}${view.id}` },
  })
}

/** The secrets that sign a callback, the current one first. */
export function secretsInForce({ current, previous }: Secrets, nowMs: number): string[] {
  return previous && nowMs < previous.rotatedAtMs + ROTATION_MS ? [current, previous.secret] : [current]
}
