/**
 * Checks fair shares at the end of a simulation, while nothing else happens. If slow jobs of one account fill a node or an
 * upstream, a job of another account still starts. Two accounts with the same weight get equal shares. A receiver that stalls
 * does not delay the callbacks of other accounts.
 */
import type { Callers } from './callers.ts'
import { LEAKS, type Ledger } from './ledger.ts'
import { CALL_TIMEOUT_MS, RESTART_MS } from './model-servers.ts'
import type { SimulatedProcess } from './node.ts'
import { type JobManner, type JobPlan, type Plan, POISONS, type ReceiverFault } from './plan.ts'
import type { World } from './world.ts'

const MANY = 'many'
const SINGLE = 'single'
const FILLER = 'filler'
export const FAIRNESS_ACCOUNTS = [
  { name: MANY, tier: 'user_max' },
  { name: SINGLE, tier: 'user_max' },
  { name: FILLER, tier: 'user_max' },
]
/** This share of the slots is reserved for accounts that hold no slot. */
const SLOT_RESERVE = 1 / 16
const RULE = 'one account cannot delay another'
const PRIORITY_RULE = 'a job of a higher priority starts first'
/** With fewer slots, none is reserved for other accounts or for receivers that have not answered yet. */
const LEAST_SLOTS = 4
const JOBS_OF_A_SLOT = 2
const START_WITHIN_MS = 1000
/** Within this time, one of the slow jobs in progress ends. Each takes up to 18 s. */
const SLOW_MS = 19_000
/**
 * A quick job's callback must arrive this soon after the job's creation. The job runs for up to 2 s, and the database has
 * delays.
 */
const CALLBACK_WITHIN_MS = 4000
/** With this many more failing jobs than fill the slots, more jobs fail in a row than a circuit breaker allows. */
const FAILURES = 10
const POISONED_MS = 8000
/** A quick job must be answered this soon after its call, and called this soon after its creation. */
const QUICK_MS = 2000
const [CRASHING, BYSTANDERS] = [3, 4]
const CRASHES_DELAY_MS = 10_000
/**
 * This limit is for a job next to jobs that crash their servers even without a schema, up to three times each. It is also for a
 * job that two crashes interrupted: that job may be their cause, so it waits until it can run alone.
 */
const MOST_CRASHES_DELAY_MS = 20_000
const CRASHES_OF_SUSPECT = 2
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
  readonly processes: readonly SimulatedProcess[]
  readonly receiverFaults: Map<string, ReceiverFault>
  readonly untilQuiet: () => Promise<void>
}

/** While a route recovers, the limits would be different, so nothing is checked then. */
export async function tryFairness(parts: FairnessParts): Promise<void> {
  const { plan, processes, untilQuiet } = parts
  const { concurrency, nodes, callbackSlots, seed } = plan
  if (processes.some(({ hasStarted, router }) => !hasStarted || router.limited.size > 0)) return
  // Every load may change the upstreams' limits, so they are read again each time.
  const isCallFree = () =>
    processes.every(({ router }) => router.state().every(({ limit }) => limit > concurrency))
  if (concurrency >= LEAST_SLOTS && (isCallFree() || nodes === 1)) {
    await trySlots(parts, isCallFree())
    await untilQuiet()
  }
  if (concurrency >= LEAST_SLOTS && (isCallFree() || nodes === 1)) {
    if (seed % 2 === 0) await tryPoison(parts, isCallFree())
    else await tryCrashes(parts)
    await untilQuiet()
  }
  // Accounts that hold no slot get the reserved slots, so equal shares need a node without reserved slots.
  if (seed % 3 === 0 && concurrency < LEAST_SLOTS && isCallFree()) {
    await tryShares(parts)
    await untilQuiet()
  }
  if (seed % 3 === 2 && isCallFree() && nodes === 1) {
    await tryPriorities(parts)
    await untilQuiet()
  }
  if (seed % 3 === 1 && callbackSlots >= LEAST_SLOTS && concurrency >= LEAST_SLOTS && isCallFree()) {
    await tryReceivers(parts)
    await untilQuiet()
  }
}

/**
 * Another account's job must start soon although slow jobs fill the slots. If the upstream serves fewer calls than the node has
 * slots, that job starts when the next call ends.
 */
async function trySlots({ world, ledger, plan, callers, process }: FairnessParts, isCallFree: boolean) {
  const slow = jobs('slow', 'answer slowly', plan.concurrency * JOBS_OF_A_SLOT)
  callers.request(MANY, process, { jobs: slow, waitMs: null, key: null, leaveMs: null })
  await world.runUntil(world.nowMs + 500)
  const running = [...ledger.callsInProgress].filter(({ account }) => account === MANY).length
  const reserve = Math.max(1, Math.floor(plan.concurrency * SLOT_RESERVE))
  if (isCallFree && plan.nodes === 1 && running < plan.concurrency - reserve)
    ledger.violate(
      LEAKS,
      `${running} jobs run in ${plan.concurrency} slots, of which ${reserve} are reserved`,
    )
  const sentMs = world.nowMs
  const hasStarted = () => ledger.callsOf(SINGLE, 'other0').firstAtMs !== null
  callers.request(SINGLE, process, {
    jobs: jobs('other', 'answer', 1),
    waitMs: 60_000,
    key: null,
    leaveMs: null,
  })
  await world.runUntil(sentMs + START_WITHIN_MS)
  if (!isCallFree && !hasStarted()) {
    const before = new Set(ledger.callsInProgress)
    const hasEnded = () => [...before].some((call) => !ledger.callsInProgress.has(call))
    await world.runUntil(world.nowMs + SLOW_MS, hasEnded)
    await world.runUntil(world.nowMs + START_WITHIN_MS)
  }
  if (!hasStarted()) ledger.violate(RULE, `a job did not start within ${world.nowMs - sentMs} ms`)
}

/**
 * The model server's failures for one account must not delay another account's job.
 *
 * - If the upstream has a free slot, which the node's reserve ensures, the job starts within `START_WITHIN_MS`.
 * - If the calls of the failing account fill the upstream, the job starts when the next of them ends, after the call timeout at
 *   the latest.
 *
 * No pause after the failures, and no trial of the upstream, may add to that.
 */
async function tryPoison({ world, ledger, plan, callers, process }: FairnessParts, isCallFree: boolean) {
  const manner = POISONS[Math.floor(plan.seed / 2) % POISONS.length] ?? 'fails'
  const poison = jobs('poison', manner, plan.concurrency * JOBS_OF_A_SLOT + FAILURES)
  callers.request(MANY, process, { jobs: poison, waitMs: null, key: null, leaveMs: null })
  await world.runUntil(world.nowMs + POISONED_MS)
  const slotMs = isCallFree ? 0 : manner === 'unanswered' ? CALL_TIMEOUT_MS : START_WITHIN_MS
  const delayMs = START_WITHIN_MS + slotMs
  const sentMs = world.nowMs
  const hasStarted = () => ledger.callsOf(SINGLE, 'innocent0').firstAtMs !== null
  const innocent = jobs('innocent', 'answer', 1)
  callers.request(SINGLE, process, { jobs: innocent, waitMs: 60_000, key: null, leaveMs: null })
  await world.runUntil(sentMs + delayMs, hasStarted)
  if (!hasStarted())
    ledger.violate(RULE, `next to jobs that are ${manner}, a job did not start in ${delayMs} ms`)
}

/**
 * Jobs that crash their model server and the fallback must hardly delay another account's jobs. There are few crashes, and each
 * costs a restart of the server and a pause.
 */
async function tryCrashes({ world, ledger, plan, callers, process }: FairnessParts) {
  const manner = Math.floor(plan.seed / 2) % 2 === 0 ? 'crash' : 'crash always'
  const slots = Math.min(plan.concurrency, plan.upstreamConcurrency)
  const quickMs = QUICK_MS + Math.ceil((CRASHING + BYSTANDERS) / slots) * QUICK_MS
  const crashing = jobs('crash', manner, CRASHING).map(
    (job) => ({ ...job, format: 'schema', model: 'two-targets' }) as const,
  )
  callers.request(MANY, process, { jobs: crashing, waitMs: null, key: null, leaveMs: null })
  await world.runUntil(world.nowMs + RESTART_MS / 2)
  const sentMs = world.nowMs
  const model = 'two-targets'
  const innocent = jobs('bystander', 'answer', BYSTANDERS).map((job) => ({ ...job, model }))
  callers.request(SINGLE, process, { jobs: innocent, waitMs: null, key: null, leaveMs: null })
  const isOpen = (tag: string) => {
    const { jobId } = ledger.callsOf(SINGLE, tag)
    return jobId === null || !ledger.endedMs.has(jobId)
  }
  const mayBeLate = (tag: string) =>
    manner === 'crash always' || ledger.callsOf(SINGLE, tag).blamed >= CRASHES_OF_SUSPECT
  const openTags = () => innocent.flatMap(({ tag }) => (isOpen(tag) ? [tag] : []))
  await world.runUntil(sentMs + quickMs + CRASHES_DELAY_MS, () => openTags().length === 0)
  const late = openTags().filter((tag) => !mayBeLate(tag))
  await world.runUntil(sentMs + quickMs + MOST_CRASHES_DELAY_MS, () => openTags().length === 0)
  late.push(...openTags())
  if (late.length > 0)
    ledger.violate(RULE, `next to jobs that ${manner}, ${late} took ${world.nowMs - sentMs} ms`)
}

/**
 * Jobs of two accounts with the same weight must start in turns, until one account has no more. An account may be ahead by at
 * most the slots of all nodes.
 */
async function tryShares({ world, ledger, plan, callers, process, untilQuiet }: FairnessParts) {
  const slots = plan.concurrency * plan.nodes
  // These jobs fill all slots, so that everything after them is queued.
  const first = jobs('first', 'answer slowly', slots)
  callers.request(FILLER, process, { jobs: first, waitMs: null, key: null, leaveMs: null })
  await world.runUntil(world.nowMs + 500)
  const accounts = [MANY, SINGLE]
  const each = slots * JOBS_OF_A_SLOT + LEAST_SLOTS
  for (const account of accounts) {
    const shares = jobs(`share-of-${account}-`, 'answer', each)
    callers.request(account, process, { jobs: shares, waitMs: null, key: null, leaveMs: null })
  }
  await untilQuiet()
  const starts = accounts.flatMap((account) =>
    jobs(`share-of-${account}-`, 'answer', each).map(({ tag }) => {
      return { account, atMs: ledger.callsOf(account, tag).firstAtMs ?? Number.POSITIVE_INFINITY }
    }),
  )
  const started = new Map(accounts.map((account) => [account, 0]))
  for (const { account } of starts.sort((one, other) => one.atMs - other.atMs)) {
    started.set(account, (started.get(account) ?? 0) + 1)
    const [one = 0, other = 0] = started.values()
    if (Math.max(one, other) === each) return
    if (Math.abs(one - other) <= slots + 1) continue
    ledger.violate('equal weights have equal shares', `${one} and ${other} of ${each} jobs, ${slots} slots`)
    return
  }
}

/** Low jobs fill all slots, and many more are queued. A high job of the same account must start in the next free slot. */
async function tryPriorities({ world, ledger, plan, callers, process }: FairnessParts) {
  const count = plan.concurrency * (JOBS_OF_A_SLOT + 1)
  const low = jobs('low', 'answer slowly', count).map((job) => ({ ...job, priority: 'low' }) as const)
  callers.request(MANY, process, { jobs: low, waitMs: null, key: null, leaveMs: null })
  await world.runUntil(world.nowMs + 500)
  const high = jobs('high', 'answer', 1).map((job) => ({ ...job, priority: 'high' }) as const)
  callers.request(MANY, process, { jobs: high, waitMs: null, key: null, leaveMs: null })
  await world.runUntil(world.nowMs + 500)
  const sinceMs = world.nowMs
  const running = [...ledger.callsInProgress]
  const hasEnded = () => running.some((call) => !ledger.callsInProgress.has(call))
  const hasStarted = () => ledger.callsOf(MANY, 'high0').firstAtMs !== null
  await world.runUntil(world.nowMs + SLOW_MS, () => hasEnded() || hasStarted())
  await world.runUntil(world.nowMs + START_WITHIN_MS, hasStarted)
  // If no low job started either, an earlier event still keeps the account from its model server.
  const overtook = low.some(({ tag }) => (ledger.callsOf(MANY, tag).firstAtMs ?? 0) > sinceMs)
  if (!hasStarted() && overtook) ledger.violate(PRIORITY_RULE, 'low jobs started before a high one')
}

async function tryReceivers({ world, ledger, plan, callers, process, receiverFaults }: FairnessParts) {
  receiverFaults.set(MANY, 'stall')
  const stalled = jobs('stalled', 'answer', plan.callbackSlots * JOBS_OF_A_SLOT, true)
  callers.request(MANY, process, { jobs: stalled, waitMs: null, key: null, leaveMs: null })
  await world.runUntil(world.nowMs + CALLBACK_WITHIN_MS)
  const single = jobs('callback', 'answer', 1, true)
  const isReceived = () =>
    [...ledger.jobs.values()].some(
      ({ plan: { tag }, callbacksReceived }) => tag === 'callback0' && callbacksReceived > 0,
    )
  callers.request(SINGLE, process, { jobs: single, waitMs: null, key: null, leaveMs: null })
  await world.runUntil(world.nowMs + CALLBACK_WITHIN_MS, isReceived)
  if (!isReceived()) ledger.violate(RULE, `a callback did not arrive within ${CALLBACK_WITHIN_MS} ms`)
  receiverFaults.delete(MANY)
}

function jobs(tag: string, manner: JobManner, count: number, hasCallback = false): JobPlan[] {
  return Array.from({ length: count }, (_, index) => ({ ...JOB, tag: `${tag}${index}`, manner, hasCallback }))
}
