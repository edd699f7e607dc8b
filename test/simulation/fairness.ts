/** P22, when all else is quiet: slow jobs of one account fill a node, and a job of another account starts nevertheless. */
import type { Callers } from './callers.ts'
import type { Ledger } from './ledger.ts'
import type { SimulatedProcess } from './node.ts'
import type { AccountPlan, JobPlan, Plan } from './plan.ts'
import type { World } from './world.ts'

export const FAIRNESS_ACCOUNTS: readonly AccountPlan[] = [
  { name: 'many', tier: 'user_max' },
  { name: 'single', tier: 'user_max' },
]
/** With fewer slots none is kept for other accounts. */
const LEAST_SLOTS = 4
/** Slow jobs for each slot. */
const JOBS_OF_A_SLOT = 2
const START_WITHIN_MS = 1000
const JOB: Omit<JobPlan, 'tag' | 'manner'> = {
  format: 'text',
  model: 'one-target',
  size: 10,
  hasCallback: false,
  cacheTtlMs: 1000,
}

export interface FairnessParts {
  readonly world: World
  readonly ledger: Ledger
  readonly plan: Plan
  readonly callers: Callers
  readonly process: SimulatedProcess
}

/** Where upstreams serve fewer calls than the node has slots, or recover, their bounds are others. */
export function mayTryFairness({ concurrency }: Plan, { router, hasStarted }: SimulatedProcess): boolean {
  if (!hasStarted || concurrency < LEAST_SLOTS || router.limited.size > 0) return false
  return router.state().every(({ limit }) => limit > concurrency)
}

export async function tryFairness({ world, ledger, plan, callers, process }: FairnessParts): Promise<void> {
  const slow = Array.from({ length: plan.concurrency * JOBS_OF_A_SLOT }, (_, index): JobPlan => {
    return { ...JOB, tag: `slow${index}`, manner: 'answer slowly' }
  })
  callers.request('many', process, { jobs: slow, waitMs: null, key: null, leaveMs: null })
  await world.runUntil(world.nowMs + 500)
  const sentMs = world.nowMs
  const jobs: JobPlan[] = [{ ...JOB, tag: 'other', manner: 'answer' }]
  callers.request('single', process, { jobs, waitMs: 60_000, key: null, leaveMs: null })
  await world.runUntil(sentMs + START_WITHIN_MS)
  if (ledger.callsOf('single', 'other').firstAtMs === null) {
    ledger.violate('P22 one account cannot delay another', `a job did not start within ${START_WITHIN_MS} ms`)
  }
}
