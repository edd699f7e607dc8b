/**
 * Usage events report once what each finished job used, for billing. They are read from the jobs, in the order of creation. A
 * cursor therefore names the last job that was read, and the earlier jobs that had not finished by then.
 */
import { isJobId, leastJobId } from '../job/job-id.ts'
import { usageView } from '../job/job-record.ts'
import { splitMetadata } from '../job/response-format.ts'
import type { JobSearchStore, JobUse } from '../store/job-search-store.ts'
import { BEFORE_ALL } from '../store/pagination.ts'
import { type Static, Type } from '../typed-schema.ts'
import { count, seconds, textOrNull, unixTime } from './fields.ts'

/** A cursor is part of a URL, so its length is limited. While this many earlier jobs are unfinished, later jobs are not read. */
const MAX_UNFINISHED = 256
/** Clocks of nodes differ, and accepting a job takes a moment, so jobs may be stored in another order than that of their IDs. */
const SETTLED_IDS_MS = 60_000

const usageEvent = Type.Object({
  job_id: Type.String({ description: 'Also the ID of the event: each job has one.' }),
  account: Type.String(),
  model: Type.String({ description: 'The public model name that the caller requested.' }),
  target: textOrNull('What answered, as `upstream/model`; null if nothing did, or for a cached response.'),
  status: Type.Enum(['completed', 'failed']),
  created_at: unixTime('When it was accepted'),
  settled_at: unixTime('When it ended'),
  input_tokens: count,
  cached_input_tokens: count,
  output_tokens: count,
  calls: count,
  cost: Type.Optional(
    Type.Integer({ description: 'In millionths of the currency; absent if the model has no price.' }),
  ),
  cache_hit: Type.Boolean(),
  metadata: Type.Optional(Type.Unknown({ description: 'That of the job; absent if it has none.' })),
})
export type UsageEvent = Static<typeof usageEvent>

export const usageEventList = Type.Object({
  events: Type.Array(usageEvent),
  currency: Type.Optional(
    Type.String({ description: 'The currency of all costs; absent if none is configured.' }),
  ),
  more: Type.Boolean({ description: 'Whether there are more events now.' }),
  next: Type.String({
    description: 'Pass this value as `after` to get the events after these, now or later.',
  }),
})

export interface UsageCursor {
  readonly lastJobId: string
  /** The unfinished jobs up to the last one. */
  readonly unfinished: readonly string[]
}

export const FIRST_EVENT: UsageCursor = { lastJobId: BEFORE_ALL, unfinished: [] }

export interface UsageEventPage {
  readonly events: readonly UsageEvent[]
  readonly more: boolean
  readonly next: UsageCursor
}

export async function readUsageEvents(
  store: Pick<JobSearchStore, 'jobUses' | 'jobUsesOf'>,
  { lastJobId, unfinished }: UsageCursor,
  limit: number,
  nowMs: number,
): Promise<UsageEventPage> {
  const earlier = unfinished.length === 0 ? [] : await store.jobUsesOf(unfinished)
  const late = earlier.filter(hasEnded).slice(0, limit)
  const isLate = new Set(late.map(({ id }) => id))
  // A job that does not exist any more was deleted.
  const left = earlier.flatMap(({ id }) => (isLate.has(id) ? [] : [id]))
  const wanted = limit - late.length
  const found =
    wanted === 0
      ? []
      : await store.jobUses({
          afterId: lastJobId,
          beforeId: leastJobId(nowMs - SETTLED_IDS_MS),
          limit: wanted,
        })
  const events = late.map(usageEventOf)
  let last = lastJobId
  let read = 0
  for (const use of found) {
    if (!hasEnded(use)) {
      if (left.length >= MAX_UNFINISHED) break
      left.push(use.id)
    } else events.push(usageEventOf(use))
    last = use.id
    read += 1
  }
  const isFull = wanted === 0 || (found.length === wanted && read === found.length)
  return { events, more: isFull, next: { lastJobId: last, unfinished: left } }
}

const hasEnded = ({ usage }: JobUse): boolean => usage !== null

/** Returns the usage event of a finished job. */
export function usageEventOf({
  id,
  account,
  model,
  status,
  createdAtMs,
  settledAtMs,
  usage,
  formatStart,
}: JobUse): UsageEvent {
  if (usage === null || (status !== 'completed' && status !== 'failed'))
    throw new Error(`job ${id} has not finished`)
  const { input_tokens, cached_input_tokens, output_tokens, calls, cost, cache_hit } = usageView(
    status,
    usage,
  )
  const { metadataJson } = splitMetadata(formatStart)
  return {
    job_id: id,
    account,
    model,
    target: usage.target,
    status,
    created_at: createdAtMs / 1000,
    settled_at: seconds(settledAtMs) ?? 0,
    input_tokens,
    cached_input_tokens,
    output_tokens,
    calls,
    ...(cost !== undefined && { cost }),
    cache_hit,
    ...(metadataJson !== null && { metadata: JSON.parse(metadataJson) }),
  }
}

/** A cursor has 16 bytes for each job. */
export function usageCursorText({ lastJobId, unfinished }: UsageCursor): string {
  const digits = [lastJobId, ...unfinished].map((id) => id.replaceAll('-', '')).join('')
  return Buffer.from(digits, 'hex').toString('base64url')
}

/** Returns null for text that `usageCursorText` did not write. */
export function readUsageCursor(text: string): UsageCursor | null {
  const digits = /^[\w-]+$/.test(text) ? Buffer.from(text, 'base64url').toString('hex') : ''
  if (digits === '' || digits.length % 32 !== 0 || digits.length > 32 * (MAX_UNFINISHED + 1)) return null
  const [lastJobId = '', ...unfinished] = (digits.match(/.{32}/g) ?? []).map((one) =>
    one.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
  )
  const isKnown = (lastJobId === BEFORE_ALL || isJobId(lastJobId)) && unfinished.every(isJobId)
  return isKnown ? { lastJobId, unfinished } : null
}
