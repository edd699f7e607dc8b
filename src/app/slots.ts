/**
 * Computes the memory that this process may use for jobs and requests, and how many jobs it may run, from the settings and the
 * heap limit.
 */
import { getHeapStatistics } from 'node:v8'
import type { Settings, UpstreamSettings } from '../config/settings.ts'
import { SHARES } from '../sharing/byte-budget.ts'

/** Estimated bytes in memory of a small job that waits for its model server: texts, objects, call and connection. */
const WAITING_JOB_BYTES = 24 * 1024
const LEAST_SLOTS = 16
const MOST_SLOTS = 10_000

/** Returns the size of the byte budget of this process. */
export function memoryBytes({ limits }: Pick<Settings, 'limits'>): number {
  // The other half of the heap is for memory that is not counted, and for garbage. Buffers are outside the heap, but a text has
  // about the same size as its buffer.
  return limits.memory_bytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
}

/** Returns `jobs.concurrency`; if it is not set, how many jobs fit into memory. */
export function jobSlots(settings: Pick<Settings, 'jobs' | 'limits'>): number {
  const fitting = Math.floor((memoryBytes(settings) * SHARES.jobs) / WAITING_JOB_BYTES)
  return settings.jobs.concurrency ?? Math.min(MOST_SLOTS, Math.max(LEAST_SLOTS, fitting))
}

/** Returns how many concurrent calls an upstream may get. */
export function maxConcurrency(
  { max_concurrency }: Pick<UpstreamSettings, 'max_concurrency'>,
  settings: Pick<Settings, 'jobs' | 'limits'>,
): number {
  return max_concurrency ?? jobSlots(settings)
}
