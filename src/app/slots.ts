/** Computes how much memory this process counts and how many jobs it may hold, from the settings and the process's heap limit. */
import { getHeapStatistics } from 'node:v8'
import type { Settings, UpstreamSettings } from '../config/settings.ts'
import { SHARES } from '../sharing/byte-budget.ts'

/** Memory of a small job that waits for its model server: its texts, its objects, its call and its connection. */
const WAITING_JOB_BYTES = 24 * 1024
const LEAST_SLOTS = 16
const MOST_SLOTS = 10_000

/** The byte budget of the process. */
export function memoryBytes({ limits }: Pick<Settings, 'limits'>): number {
  // Half of the heap is for memory that is not counted, and for garbage that V8 has not collected yet. Counted memory is partly
  // outside the heap, but a text has about the same size as its buffer.
  return limits.memory_bytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
}

/** Returns `jobs.concurrency`, or how many jobs fit into memory. */
export function jobSlots(settings: Pick<Settings, 'jobs' | 'limits'>): number {
  const fitting = Math.floor((memoryBytes(settings) * SHARES.jobs) / WAITING_JOB_BYTES)
  return settings.jobs.concurrency ?? Math.min(MOST_SLOTS, Math.max(LEAST_SLOTS, fitting))
}

/** Returns the most calls that an upstream may get at once. */
export function maxConcurrency(
  { max_concurrency }: Pick<UpstreamSettings, 'max_concurrency'>,
  settings: Pick<Settings, 'jobs' | 'limits'>,
): number {
  return max_concurrency ?? jobSlots(settings)
}
