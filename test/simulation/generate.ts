/** Makes the plan of a simulated history from a seed. */
import { PRIORITIES } from '../../src/job/priority.ts'
import { incident, poison, rush } from './incidents.ts'
import {
  type Action,
  type JobManner,
  type JobPlan,
  MODELS,
  type Plan,
  POISONS,
  RECEIVER_FAULTS,
  STORE_FAULTS,
  type Step,
  UPSTREAM_FAULTS,
} from './plan.ts'
import { SeededRandom } from './random.ts'

const ACTIVE_MS = 60_000
const LOWER_PRIORITIES = ['normal', 'low'] as const
const HIGH_ACCOUNT = 2
/** With this retention, nothing expires within a history. */
const LONG_RETENTION_S = 86_400
const SHORT_RETENTION_S = 60
const MANNERS: readonly JobManner[] = [
  ...Array<JobManner>(20).fill('answer'),
  ...Array<JobManner>(4).fill('answer slowly'),
  'wrong once',
  'wrong once',
  'wrong',
  'wrong, then overloaded',
  'paid error once',
  'cut off',
  'refuse',
  'invalid',
  'reset',
  'unstorable',
]
/**
 * Plans with poison have these manners, too: jobs that fail at a server that works for others, and jobs that crash their
 * server.
 */
const WITH_POISON: readonly JobManner[] = [...MANNERS, ...POISONS, 'crash', 'crash always']

export function generatePlan(seed: number): Plan {
  const random = new SeededRandom(seed)
  // A separate sequence of random numbers keeps the other actions of a seed as they were.
  const others = new SeededRandom(seed, 2)
  const shared = random.chance(0.4)
  const isCalm = random.chance(0.15)
  const nodes = shared ? random.pick([1, 2, 3, 3]) : 1
  // In the smallest byte budget, the largest jobs, callbacks and results are each larger than their share.
  const memoryBytes = random.pick([2, 16, 16]) * 1024 * 1024
  const retentionS = random.pick([...Array<number>(5).fill(LONG_RETENTION_S), SHORT_RETENTION_S])
  const options: ActionOptions = {
    random,
    shared,
    tags: 'job',
    largeChance: memoryBytes < 16 * 1024 * 1024 ? 0.12 : 0.02,
    cacheTtlMs: retentionS === SHORT_RETENTION_S ? 90_000 : 300_000,
    manners: others.chance(0.4) ? WITH_POISON : MANNERS,
  }
  const maker = new ActionMaker(options)
  const actions: Action[] = []
  const add = (count: number, make: () => Step) => {
    for (let made = 0; made < count; made++) actions.push({ atMs: random.whole(0, ACTIVE_MS), ...make() })
  }
  add(random.whole(3, 25), () => maker.create())
  add(random.whole(3, 20), () => maker.look())
  add(random.whole(0, 3), () => maker.ownAction())
  if (!isCalm) {
    add(random.whole(0, 4), () => maker.operator())
    add(random.whole(0, 6), () => maker.fault())
    if (random.chance(0.25))
      actions.push(...incident({ random, mostMs: ACTIVE_MS, create: () => maker.create() }))
  }
  const make = (tags: string) => {
    const other = new ActionMaker({ ...options, random: others, tags })
    return { random: others, mostMs: ACTIVE_MS, create: () => other.create() }
  }
  if (others.chance(0.4)) actions.push(...rush(make('rush')))
  if (others.chance(0.3)) actions.push(...poison(make('beside')))
  if (others.chance(0.1)) {
    const atMs = others.whole(0, 5000)
    actions.push({ atMs, kind: 'receiver', account: others.whole(0, 2), fault: '503', ms: 60_000 })
  }
  for (const { atMs, ...again } of actions.filter(({ kind }) => kind === 'create')) {
    if (again.kind !== 'create' || again.key === null) continue
    for (let repeat = random.whole(0, 2); repeat > 0; repeat--) {
      actions.push({ ...again, atMs: atMs + random.whole(0, 10_000), node: random.whole(0, 2) })
    }
  }
  addPriorities(actions, new SeededRandom(seed, 3))
  actions.push(...batchesOf(new SeededRandom(seed, 4), options))
  return {
    seed,
    shared,
    nodes,
    concurrency: random.pick([1, 2, 4, 6, 16]),
    upstreamConcurrency: random.pick([1, 2, 4, 32]),
    maxAttempts: random.whole(1, 3),
    patienceMs: random.pick([30_000, 180_000]),
    maxPendingResponses: random.pick([2, 20, 100]),
    drainMs: random.pick([1000, 5000, 20_000]),
    callbackSlots: random.pick([1, 2, 8]),
    memoryBytes,
    retentionS,
    actions: actions.sort((one, other) => one.atMs - other.atMs),
  }
}

/** Some histories have batches: callers submit and may cancel them, and a node may be killed while it starts their lines. */
function batchesOf(random: SeededRandom, options: ActionOptions): Action[] {
  if (!random.chance(0.3)) return []
  const maker = new ActionMaker({ ...options, random, tags: 'line', largeChance: 0 })
  const submits = Array.from({ length: random.whole(1, 2) }, () => maker.batch(ACTIVE_MS))
  const others = submits.flatMap(({ atMs, node }): Action[] => [
    ...(random.chance(0.4)
      ? [{ kind: 'kill', node, atMs: atMs + random.whole(10, 150), ms: 1000 } as const]
      : []),
    ...(random.chance(0.2)
      ? [
          {
            kind: 'cancel batch',
            batch: random.whole(0, 1),
            node,
            atMs: atMs + random.whole(0, 20_000),
          } as const,
        ]
      : []),
  ])
  return [...submits, ...others]
}

/** Some jobs get a deadline, or a priority that their tier allows. Requests that repeat each other stay equal. */
function addPriorities(actions: Action[], random: SeededRandom): void {
  if (random.chance(0.5)) return
  const changed = new Map<JobPlan, JobPlan>()
  for (const [index, action] of actions.entries()) {
    if (action.kind !== 'create') continue
    const jobs = action.jobs.map((job) => {
      const known = changed.get(job)
      if (known !== undefined) return known
      const priority = random.pick(action.account === HIGH_ACCOUNT ? PRIORITIES : LOWER_PRIORITIES)
      const completeWithinS = random.pick([null, null, null, 1, 5, 20, 60])
      const other = {
        ...job,
        ...(random.chance(0.4) && { priority }),
        ...(completeWithinS !== null && { completeWithinS }),
      }
      changed.set(job, other)
      return other
    })
    actions[index] = { ...action, jobs }
  }
}

interface ActionOptions {
  readonly random: SeededRandom
  readonly shared: boolean
  readonly largeChance: number
  readonly cacheTtlMs: number
  readonly manners: readonly JobManner[]
  readonly tags: string
}

class ActionMaker {
  readonly #options: ActionOptions
  readonly #random: SeededRandom
  readonly #shared: boolean
  #tags = 0

  constructor(options: ActionOptions) {
    this.#options = options
    this.#random = options.random
    this.#shared = options.shared
  }

  create(): Step {
    const random = this.#random
    const isBatch = random.chance(0.4)
    const hasKey = random.chance(0.2)
    const jobs = Array.from({ length: isBatch ? random.whole(1, 12) : 1 }, () => this.#job(isBatch))
    return {
      kind: 'create',
      account: random.whole(0, 2),
      node: random.whole(0, 2),
      jobs,
      waitMs: isBatch ? null : random.pick([1000, 30_000, 120_000]),
      key: hasKey ? `key of ${this.#options.tags}${this.#tags}` : null,
      leaveMs: random.chance(0.1) ? random.whole(0, 3000) : null,
    }
  }

  batch(mostMs: number): Extract<Action, { readonly kind: 'submit batch' }> {
    const random = this.#random
    // In a history, the answers to jobs of batches are text, and these jobs have no callback and use no cache.
    const lines = Array.from({ length: random.whole(1, 30) }, () => {
      return { ...this.#job(false), format: 'text', cacheTtlMs: 0 } as const
    })
    return {
      kind: 'submit batch',
      atMs: random.whole(0, mostMs),
      account: random.whole(0, 2),
      node: random.whole(0, 2),
      lines,
      windowMs: random.pick([2000, 60_000, 600_000, 600_000]),
    }
  }

  look(): Step {
    const random = this.#random
    const [job, node, isForeign] = [random.whole(0, 999), random.whole(0, 2), random.chance(0.2)]
    switch (random.pick(['read', 'read', 'wait', 'wait', 'list'] as const)) {
      case 'read':
        return { kind: 'read', job, node, isForeign }
      case 'wait': {
        const isSingle = random.chance(0.5)
        const others = Array.from({ length: isSingle ? 0 : random.whole(1, 12) }, () => random.whole(0, 999))
        return {
          kind: 'wait',
          jobs: [job, ...others],
          node,
          isForeign,
          waitMs: random.pick([0, 500, 10_000, 60_000, 120_000]),
          until: random.pick(['all', 'any']),
          leaveMs: random.chance(0.15) ? random.whole(0, 3000) : null,
        }
      }
      case 'list': {
        const status = random.pick([null, null, 'pending', 'assigned', 'completed', 'failed'] as const)
        return {
          kind: 'list',
          account: random.whole(0, 2),
          node,
          limit: random.pick([1, 5, 20, 100]),
          status,
        }
      }
    }
  }

  ownAction(): Step {
    const random = this.#random
    const [job, node, isForeign] = [random.whole(0, 999), random.whole(0, 2), random.chance(0.2)]
    if (random.chance(0.4))
      return { kind: 'cancel own', job, node, isForeign, thenDelete: random.chance(0.5) }
    return { kind: 'delete own', job, node, isForeign, dropCallback: random.chance(0.5) }
  }

  operator(): Step {
    const random = this.#random
    const node = random.whole(0, 2)
    const account = random.whole(0, 2)
    const job = random.whole(0, 999)
    const kind = random.pick([
      'cancel',
      'cancel',
      'cancel all',
      'suspend',
      'resume',
      'rotate secret',
      'delete account',
      'delete job',
      'replay',
      'cap',
    ] as const)
    switch (kind) {
      case 'cancel':
      case 'delete job':
      case 'replay':
        return { kind, job, node }
      case 'cancel all':
        return { kind, account, node, running: random.chance(0.5) }
      case 'cap':
        return {
          kind,
          account,
          node,
          openJobs: random.pick([1, 5, null]),
          monthlyJobs: random.pick([2, 10, 100, null, null]),
          monthlyTokens: random.pick([100, 10_000, null, null]),
          storedBytes: random.pick([1000, 100_000, null, null]),
          monthlyCost: random.pick([500, 20_000, null, null]),
        }
      default:
        return { kind, account, node }
    }
  }

  fault(): Step {
    const random = this.#random
    const node = random.whole(0, 2)
    const ms = random.pick([random.whole(0, 2000), random.whole(0, 40_000)])
    const kind = random.pick([
      'store',
      'upstream',
      'upstream',
      'receiver',
      'kill',
      'restart',
      'pause',
      'clock',
      'create',
      ...(this.#shared ? (['store clock', 'upgrade'] as const) : []),
    ] as const)
    switch (kind) {
      case 'store':
        return { kind, fault: random.pick(STORE_FAULTS), ms: Math.min(ms, 25_000) }
      case 'upstream':
        return { kind, upstream: random.whole(0, 1), fault: random.pick(UPSTREAM_FAULTS), ms }
      case 'receiver':
        return { kind, account: random.whole(0, 2), fault: random.pick(RECEIVER_FAULTS), ms }
      case 'clock':
        return { kind, node, ms: random.pick([-3_600_000, -5000, 5000, 3_600_000]) }
      case 'pause': {
        const what = this.#shared && random.chance(0.4) ? 'loop' : 'process'
        return { kind, node, ms, what }
      }
      case 'create':
        return this.#poison()
      case 'store clock':
        return { kind, ms: random.pick([-3_600_000, -5000, 5000, 3_600_000]) }
      case 'upgrade':
        return { kind, ms: Math.min(ms, 5000) }
      default:
        return { kind, node, ms: Math.min(ms, 15_000) }
    }
  }

  #poison(): Step {
    const random = this.#random
    const job = { ...this.#job(false), manner: 'kill', tag: `kill${this.#tags}`, hasCallback: false } as const
    const [account, node] = [random.whole(0, 2), random.whole(0, 2)]
    return { kind: 'create', account, node, jobs: [job], waitMs: 30_000, key: null, leaveMs: null }
  }

  #job(mayCallBack: boolean): JobPlan {
    const { random, largeChance, cacheTtlMs, manners, tags } = this.#options
    this.#tags += 1
    // Some jobs are identical, even jobs of different accounts.
    const isShared = random.chance(0.15)
    const manner = isShared ? 'answer' : random.pick(manners)
    return {
      tag: isShared ? `same${random.whole(0, 1)}` : `${tags}${this.#tags}`,
      manner,
      format: isShared ? 'text' : random.pick(['text', 'json', 'schema']),
      model: isShared ? 'one-target' : random.pick(Object.keys(MODELS)),
      size: isShared ? 10 : random.chance(largeChance) ? random.whole(20_000, 400_000) : random.whole(0, 500),
      ...(random.chance(largeChance) && { answerSize: random.whole(20_000, 400_000) }),
      hasCallback: mayCallBack && random.chance(0.6),
      cacheTtlMs,
    }
  }
}
