/**
 * Sums usage by the metadata of jobs. Callers choose those values, so no sums are stored: they are computed from the jobs that
 * still exist.
 */
import { monthOf } from '../job/month.ts'
import type { JobSearchStore } from '../store/job-search-store.ts'
import { AFTER_ALL, BEFORE_ALL } from '../store/pagination.ts'
import { sumOf, type UsageSums } from './account-view.ts'
import { type UsageEvent, usageEventOf } from './usage-events.ts'

const METADATA = 'metadata.'
const PAGE_SIZE = 1000

export const isMetadataKey = (key: string): boolean => key.startsWith(METADATA) && key !== METADATA

export interface UsageByMetadata {
  /** What to sum by: `month`, `account`, `model`, or `metadata.` and a key. */
  readonly keys: readonly string[]
  readonly account?: string
  readonly month?: string
}

/**
 * Returns the values of the keys, empty for a job without such metadata, with their sums, in the order in which they first
 * occur.
 */
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
