/** Builds the signed POST of SPEC §6, or that of an event, which reports an outcome to a caller's server. */

import type { CallbackEvent } from '../job/job.ts'
import { endingOf, jobRecordJson, type MetadataById } from '../job/job-record.ts'
import type { PostRequest } from '../net/post.ts'
import { secretsInForce, sign } from '../net/signing-secrets.ts'
import type { Secrets } from '../store/account-store.ts'
import type { CallbackBody } from '../store/callback-store.ts'

export interface SignableBody extends CallbackBody {
  readonly secrets: Secrets
  /** Present if the callback includes the metadata of the job. */
  readonly metadata?: MetadataById
}

/** Sends the payload as the stored text. */
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
      // The caller's headers may replace it.
      ...(callback.traceparent !== undefined && { traceparent: callback.traceparent }),
      ...callback.headers,
      'content-type': 'application/json',
      'webhook-id': view.id,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': sign(secretsInForce(secrets, nowMs), view.id, timestampS, body),
    },
  }
}

/** The event is the same in every attempt, so that receivers can recognize it. */
function eventJson({ of, idPrefix, ending }: CallbackEvent, { view, endedAtMs }: CallbackBody): string {
  return JSON.stringify({
    id: `evt_${view.id}`,
    object: 'event',
    created_at: Math.floor(endedAtMs / 1000),
    type: `${of}.${ending ?? endingOf(view)}`,
    data: { id: `${idPrefix}${view.id}` },
  })
}
