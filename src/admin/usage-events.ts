/**
 * Usage events report once, for billing, what each finished job used. Jobs are read in the order in which they were created.
 * The cursor has the last job that was read, and the jobs before it that had not finished, which are on later pages.
 */
import { isJobId, leastJobId } from '../job/job-id.ts'
import { usageView } from '../job/job-record.ts'
import { monthOf } from '../job/month.ts'
import { splitMetadata } from '../job/response-format.ts'
import { AFTER_ALL, BEFORE_ALL } from '../store/chunked-search.ts'
import type { JobSearchStore, JobUse } from '../store/job-search-store.ts'
import { type Static, Type } from '../typed-schema.ts'
import { sumOf, type UsageSums } from './account-view.ts'
import { count, seconds, textOrNull, unixTime } from './fields.ts'

/** The cursor is part of a URL, so it can name only a few unfinished jobs. While it is full, later jobs are not read. */
const MAX_UNFINISHED = 256
/**
 * A page leaves out jobs younger than this. They may still be stored out of the order of their IDs, because clocks differ and
 * accepting takes time, so the cursor could pass one.
 */
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
  more: Type.Boolean({
    description: 'Whether there may be more events now. With `account`, a page can then even be empty.',
  }),
  next: Type.String({
    description: 'Pass this value as `after` to get the events after these, now or later.',
  }),
})

export interface UsageCursor {
  readonly lastJobId: string
  /** When the cursor was made, these jobs before `lastJobId` had not finished. */
  readonly unfinished: readonly string[]
}

export const FIRST_EVENT: UsageCursor = { lastJobId: BEFORE_ALL, unfinished: [] }

export interface UsageEventPage {
  readonly events: readonly UsageEvent[]
  readonly more: boolean
  readonly next: UsageCursor
}

/** @param account all accounts if absent. With an account, a page may be empty although more follow. */
export async function readUsageEvents(
  store: Pick<JobSearchStore, 'jobUses' | 'jobUsesOf'>,
  { lastJobId, unfinished }: UsageCursor,
  limit: number,
  nowMs: number,
  account?: string,
): Promise<UsageEventPage> {
  const earlier = unfinished.length === 0 ? [] : await store.jobUsesOf(unfinished)
  const late = earlier.filter(hasEnded).slice(0, limit)
  const isLate = new Set(late.map(({ id }) => id))
  // A deleted job is not in `earlier`, so the cursor drops it.
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
    if (account === undefined || use.account === account) {
      if (hasEnded(use)) events.push(usageEventOf(use))
      else if (left.length < MAX_UNFINISHED) left.push(use.id)
      else break
    }
    last = use.id
    read += 1
  }
  const isFull = wanted === 0 || (found.length === wanted && read === found.length)
  return { events, more: isFull, next: { lastJobId: last, unfinished: left } }
}

const hasEnded = ({ usage }: JobUse): boolean => usage !== null

/** Throws if the job has not finished. */
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

/** Returns base64url text of 16 bytes for each job. */
export function usageCursorText({ lastJobId, unfinished }: UsageCursor): string {
  const digits = [lastJobId, ...unfinished].map((id) => id.replaceAll('-', '')).join('')
  return Buffer.from(digits, 'hex').toString('base64url')
}

/** Returns null for a text that `usageCursorText` cannot have written. */
export function readUsageCursor(text: string): UsageCursor | null {
  const digits = /^[\w-]+$/.test(text) ? Buffer.from(text, 'base64url').toString('hex') : ''
  if (digits === '' || digits.length % 32 !== 0 || digits.length > 32 * (MAX_UNFINISHED + 1)) return null
  const [lastJobId = '', ...unfinished] = (digits.match(/.{32}/g) ?? []).map((one) =>
    one.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
  )
  const isKnown = (lastJobId === BEFORE_ALL || isJobId(lastJobId)) && unfinished.every(isJobId)
  return isKnown ? { lastJobId, unfinished } : null
}

/*
 * Callers choose the values of metadata, so no sums by metadata are stored. Existing jobs are summed instead.
 */

const METADATA = 'metadata.'
const PAGE_SIZE = 1000

export const isMetadataKey = (key: string): boolean => key.startsWith(METADATA) && key !== METADATA

interface UsageByMetadata {
  /** Each key is `month`, `account`, `model` or `metadata.KEY`. */
  readonly keys: readonly string[]
  readonly account?: string
  readonly month?: string
}

/** Returns one row for each combination of the keys' values. A value is empty if a job has no such metadata. */
export async function usageByMetadata(
  store: Pick<JobSearchStore, 'jobUses'>,
  { keys, account, month }: UsageByMetadata,
): Promise<(UsageSums & Readonly<Record<string, string | number>>)[]> {
  const sums = new Map<string, UsageSums>()
  for (let afterId: string | null = BEFORE_ALL; afterId !== null; ) {
    const page = await store.jobUses({ afterId, beforeId: AFTER_ALL, limit: PAGE_SIZE })
    for (const use of page) {
      if (use.usage === null) continue
      const event = usageEventOf(use)
      if (account !== undefined && event.account !== account) continue
      if (month !== undefined && monthOf(event.settled_at * 1000) !== month) continue
      const texts = JSON.stringify(keys.map((key) => textOf(event, key)))
      const before = sums.get(texts)
      sums.set(texts, sumOf(before ? [before, usageOf(event)] : [usageOf(event)]))
    }
    afterId = page.length < PAGE_SIZE ? null : (page.at(-1)?.id ?? null)
  }
  return [...sums].map(([texts, sum]) => {
    const values: string[] = JSON.parse(texts)
    return { ...Object.fromEntries(keys.map((key, at) => [key, values[at] ?? ''])), ...sum }
  })
}

function textOf(event: UsageEvent, key: string): string {
  if (key === 'month') return monthOf(event.settled_at * 1000)
  if (key === 'account' || key === 'model') return event[key]
  const { metadata = {} } = event as { readonly metadata?: Readonly<Record<string, string>> }
  const name = key.slice(METADATA.length)
  return Object.hasOwn(metadata, name) ? (metadata[name] ?? '') : ''
}

function usageOf({ status, cache_hit, calls, input_tokens, output_tokens, cost }: UsageEvent): UsageSums {
  const [failed_jobs, cache_hits] = [Number(status === 'failed'), Number(cache_hit)]
  return {
    jobs: 1,
    failed_jobs,
    cache_hits,
    calls,
    input_tokens,
    output_tokens,
    ...(cost !== undefined && { cost }),
  }
}
