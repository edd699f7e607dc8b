/** How much memory this process counts, and how many jobs it may hold: from the settings and the heap limit of the process. */
import { getHeapStatistics } from 'node:v8'
import type { Settings, UpstreamSettings } from '../config/settings.ts'
import { SHARES } from '../sharing/byte-budget.ts'

/** What a small job takes while it waits for its model server: its texts, its objects, its call and its connection. */
const WAITING_JOB_BYTES = 24 * 1024
const LEAST_SLOTS = 16
const MOST_SLOTS = 10_000

/** The byte budget of the process. */
export function memoryBytes({ limits }: Pick<Settings, 'limits'>): number {
  // Half: the rest is for memory that is not counted, and for garbage that V8 has not collected yet. Counted memory is partly
  // outside the heap, but a buffer of a text and the text itself are never far apart in size.
  return limits.memory_bytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
}

/** `jobs.concurrency`, or what fits into memory. */
export function jobSlots(settings: Pick<Settings, 'jobs' | 'limits'>): number {
  const fitting = Math.floor((memoryBytes(settings) * SHARES.jobs) / WAITING_JOB_BYTES)
  return settings.jobs.concurrency ?? Math.min(MOST_SLOTS, Math.max(LEAST_SLOTS, fitting))
}

/** The most calls that an upstream may get at once. */
export function maxConcurrency(
  { max_concurrency }: Pick<UpstreamSettings, 'max_concurrency'>,
  settings: Pick<Settings, 'jobs' | 'limits'>,
): number {
  return max_concurrency ?? jobSlots(settings)
}
