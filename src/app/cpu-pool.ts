/** Creates the pool of threads for CPU-heavy work. */
import { availableParallelism } from 'node:os'
import type { Clock } from '../clock.ts'
import type { Settings } from '../config/settings.ts'
import { CpuPool } from '../cpu-pool/cpu-pool.ts'
import type { Metrics } from '../telemetry/metrics.ts'

/** Two even on one core, so that one long task never keeps all others waiting. */
const FEWEST_THREADS = 2
/** More would rarely be used, and each may take `cpu.thread_heap_mb`. */
const MOST_THREADS = 8

/** Many times the duration of the most expensive task, so only a task that never ends reaches it. */
const TASK_CPU_MS = 30_000
/** A thread that exits must later load the tokenizer again, which takes up to a second. */
const IDLE_MS = 300_000

export function threadsOf({ cpu }: Settings): number {
  return cpu.threads ?? Math.max(FEWEST_THREADS, Math.min(MOST_THREADS, availableParallelism()))
}

export function createCpuPool(settings: Settings, clock: Clock, metrics: Metrics): CpuPool {
  return new CpuPool({
    threads: threadsOf(settings),
    maxRequests: settings.cpu.max_requests,
    heapMb: settings.cpu.thread_heap_mb,
    taskCpuMs: TASK_CPU_MS,
    idleMs: IDLE_MS,
    clock,
    onTask: metrics.cpuTask,
    onRejected: metrics.cpuRejected,
  })
}
