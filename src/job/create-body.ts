/** From the parsed body of a create request, and its text, to what admission needs of each job in it. */
import { type CutTexts, cutMembers, cutMembersOfEach, type WantedMembers } from '../json-text/cut-members.ts'
import { parseExactly } from '../json-text/read-json.ts'
import {
  type CreateElement,
  createElement,
  NO_PARTS,
  type PartLimits,
  type PartTexts,
} from './create-element.ts'
import { requestFingerprint } from './fingerprint.ts'
import type { BatchElement, SingleCreate } from './request.ts'

/** The route decides which fields a job may have, and is part of what Idempotency-Key compares. */
export type CreateBody =
  | { readonly kind: 'single'; readonly text: string; readonly value: SingleCreate }
  | { readonly kind: 'batch'; readonly text: string; readonly value: readonly BatchElement[] }

const PAYLOAD = 0
const SCHEMA = 1
const PAYLOAD_MEMBER: WantedMembers = new Map([['callback', new Map([['callback_payload', PAYLOAD]])]])
const SCHEMA_MEMBER: WantedMembers = new Map([['response_format', new Map([['schema', SCHEMA]])]])
const BOTH_MEMBERS: WantedMembers = new Map([...PAYLOAD_MEMBER, ...SCHEMA_MEMBER])

/** The source texts that matter: a payload is forwarded as it was written, and no part is larger than the whole body. */
function partsOf(body: CreateBody, limits: PartLimits): readonly PartTexts[] | null {
  const hasPayload =
    body.kind === 'batch' && body.value.some(({ callback }) => callback?.callback_payload !== undefined)
  // Counting characters is enough: a text has at least a third as many characters as bytes.
  const mayExceed = body.text.length * 3 > limits.schemaBytes
  if (!hasPayload && !mayExceed) return null
  const wanted = hasPayload ? (mayExceed ? BOTH_MEMBERS : PAYLOAD_MEMBER) : SCHEMA_MEMBER
  const cut = body.kind === 'batch' ? cutMembersOfEach(body.text, wanted) : [cutMembers(body.text, wanted)]
  return cut.map(partTexts)
}

function partTexts(cut: CutTexts): PartTexts {
  return { payload: cut[PAYLOAD] ?? null, schema: cut[SCHEMA] ?? null }
}

/** @param body its value is the result of `JSON.parse` for its text, and has the right shape for its kind */
export function createElements(body: CreateBody, limits: PartLimits): CreateElement[] {
  const parts = partsOf(body, limits)
  if (body.kind === 'single') return [createElement(body.value, parts?.[0] ?? NO_PARTS, limits)]
  return body.value.map((object, index) => createElement(object, parts?.[index] ?? NO_PARTS, limits))
}

/**
 * Identifies the request, for Idempotency-Key. White space and the form of escapes do not matter, but every digit of a
 * payload does.
 */
export function bodyFingerprint(route: string, body: CreateBody, elements: readonly CreateElement[]): string {
  const objects = body.kind === 'batch' ? body.value : [body.value]
  const compared = objects.map((object, index) => ({
    object,
    payloadJson: 'callback' in object ? exactPayload(object, elements[index]) : null,
  }))
  return requestFingerprint(route, compared)
}

function exactPayload({ callback }: BatchElement, element: CreateElement | undefined): string | null {
  if (callback?.callback_payload === undefined) return null
  return JSON.stringify(parseExactly(element?.callback?.payloadJson ?? '{}'))
}
