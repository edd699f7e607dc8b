/** Computes how much memory this process may use for jobs and requests, and how many jobs it may run. */
import { getHeapStatistics } from 'node:v8'
import type { Settings, UpstreamSettings } from '../config/settings.ts'
import { SHARES } from '../sharing/byte-budget.ts'

/** A small job that waits for its model server takes about this much memory, with texts, objects, call and connection. */
const WAITING_JOB_BYTES = 24 * 1024
const LEAST_SLOTS = 16
const MOST_SLOTS = 10_000

export function memoryBytes({ limits }: Pick<Settings, 'limits'>): number {
  // The other half of the heap is for garbage and for what the budget does not count.
  return limits.memory_bytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
}

/** Returns `jobs.concurrency`. If that is not set, returns how many jobs fit into memory. */
export function jobSlots(settings: Pick<Settings, 'jobs' | 'limits'>): number {
  const fitting = Math.floor((memoryBytes(settings) * SHARES.jobs) / WAITING_JOB_BYTES)
  return settings.jobs.concurrency ?? Math.min(MOST_SLOTS, Math.max(LEAST_SLOTS, fitting))
}

export function maxConcurrency(
  { max_concurrency }: Pick<UpstreamSettings, 'max_concurrency'>,
  settings: Pick<Settings, 'jobs' | 'limits'>,
): number {
  return max_concurrency ?? jobSlots(settings)
}
