/**
 * Simulates callers: what they send (creates, reads, waits, lists, actions on their own jobs), and what they check in the
 * responses.
 */
import type { JobRecord } from '../../src/job/job-record.ts'
import { isCancelledError } from '../../src/job/results-without-call.ts'
import type { JobPage } from '../../src/store/job-search-store.ts'
import type { Created } from './front.ts'
import type { KnownJob, KnownRequest, Ledger } from './ledger.ts'
import { tokensOf } from './model-servers.ts'
import { runningProcess, type SimulatedNode, type SimulatedProcess, type Surroundings } from './node.ts'
import { ACCOUNTS, accountOf, type Step } from './plan.ts'
import { Connection, type ReadJobs } from './reads.ts'

const STATUSES = ['pending', 'assigned', 'ended']
const rankOf = (status: string | null) =>
  status === null ? -1 : STATUSES.indexOf(isEnd(status) ? 'ended' : status)
const isEnd = (status: string) => status === 'completed' || status === 'failed'
/**
 * Even without a notification, a node notices an end within this time: nodes poll every second, and the database has delays.
 */
const NOTICED_MS = 2000
/** A list with more pages than this counts as one that does not end. */
const MAX_PAGES = 50

type StepOf<Kind extends Step['kind']> = Extract<Step, { readonly kind: Kind }>

export interface CallerOptions extends Surroundings {
  readonly nodes: readonly SimulatedNode[]
}

export class Callers {
  readonly #around: CallerOptions
  openRequests = 0

  constructor(around: CallerOptions) {
    this.#around = around
  }

  get #ledger(): Ledger {
    return this.#around.ledger
  }

  create(step: StepOf<'create'>): void {
    const process = runningProcess(this.#around.nodes, step.node)
    if (process !== null) this.request(accountOf(step.account), process, step)
  }

  request(
    account: string,
    process: SimulatedProcess,
    { jobs, waitMs, key, leaveMs }: Pick<StepOf<'create'>, 'jobs' | 'waitMs' | 'key' | 'leaveMs'>,
  ): void {
    const { world, ledger } = this.#around
    const request = ledger.newRequest(account, jobs, waitMs === null, key)
    this.openRequests += 1
    const closed = () => {
      this.openRequests -= 1
    }
    process.whenEnded(closed)
    const send = () => {
      const onWaiting = (leave: () => void) => {
        if (leaveMs !== null) world.after(leaveMs, `a caller of ${process.id} hangs up`, leave, process.main)
      }
      const sentMs = world.nowMs
      const created = process.front.create({ request, waitMs, key, onWaiting })
      created.then(
        (response) => {
          process.forget(closed)
          closed()
          world.after(world.random.next() * 2, 'response', () => this.#responded(request, response, sentMs))
        },
        (error) => ledger.violate('no request hits a bug', String(error?.stack)),
      )
    }
    world.after(world.random.next() * 2, `request of ${account} to ${process.id}`, send, process.main)
  }

  #responded(request: KnownRequest, created: Created, sentMs: number): void {
    const { ledger, world } = this.#around
    if ('rejection' in created) {
      world.note(`rejection ${JSON.stringify(created.rejection)}`)
      return
    }
    const { status, jobIds, record } = created
    world.note(`response ${status} ${jobIds.join(' ')}`)
    if (jobIds.length !== request.plans.length) {
      ledger.violate('a batch is all or nothing', `${jobIds.length} of ${request.plans.length} jobs`)
    }
    const jobs = jobIds.map((id) => ledger.jobs.get(id))
    for (const job of jobs) {
      if (job === undefined) ledger.violate('a response names jobs of its request', jobIds.join(' '))
      else if (job.account !== request.account) {
        ledger.violate('accounts are isolated', `${request.account} got the id ${job.id} of ${job.account}`)
      } else job.isAccepted = true
    }
    request.answers.push(...jobIds)
    const [first] = jobs
    if (!first || request.isBatch) return
    if (record) this.#learn(first, record, first.readStatus)
    // A repeated request may refer to a job that ended before this request was sent.
    const endedMs = ledger.endedMs.get(first.id)
    // A node whose clock jumped may have deleted the job at once.
    if (endedMs !== undefined && !ledger.mayBeGone(first)) this.#noticed(Math.max(endedMs, sentMs), first.id)
  }

  /**
   * Records what a caller has read of its job.
   * @param before the status that the caller knew when it sent the request
   */
  #learn(job: KnownJob, { status, contentJson, errorJson }: JobRecord, before: string | null): void {
    this.#learnStatus(job, status, before)
    if (!isEnd(status)) return
    const result = `${status} ${contentJson} ${errorJson}`
    if (job.readResult !== null && job.readResult !== result) {
      this.#ledger.violate('one final state, never changed', `${job.id}: ${job.readResult}, then ${result}`)
    }
    job.readResult = result
  }

  #learnStatus(job: KnownJob, status: string, before: string | null): void {
    if (rankOf(status) < rankOf(before)) {
      this.#ledger.violate('reads never go back', `${job.id} was ${before} and is ${status}`)
    }
    if (rankOf(status) > rankOf(job.readStatus)) job.readStatus = status
  }

  /** A request that waits for the end of a job must be answered soon after, if there was no fault in between. */
  #noticed(endedMs: number, what: string): void {
    const { world, ledger } = this.#around
    if (world.nowMs - endedMs <= NOTICED_MS || !ledger.wasCalmSince(endedMs)) return
    ledger.violate('a wait ends soon after its jobs', `${what}: ${world.nowMs - endedMs} ms`)
  }

  read({ job: which, node, isForeign }: StepOf<'read'>): void {
    const asked = this.#ownOrForeign(which, isForeign)
    if (asked === null) return
    const { job, account } = asked
    const before = knowledgeOf(job)
    this.#send(node, `read of ${account}`, async (process) => {
      const record = await process.front.read(account, job.id)
      this.#around.world.note(`read ${job.id}: ${record?.status}`)
      if (record !== undefined) this.#check(account, job, record, before)
    })
  }

  wait({ jobs: numbers, node, isForeign, waitMs, until, leaveMs }: StepOf<'wait'>): void {
    const { world, ledger } = this.#around
    const asked = this.#ownOrForeign(numbers[0] ?? 0, isForeign)
    if (asked === null) return
    const { account } = asked
    const [all, own] = [ledger.accepted(), ledger.accepted().filter((job) => job.account === account)]
    const others = numbers.slice(1).flatMap((which) => {
      const some = which % 4 === 0 ? all : own
      return some[which % some.length] ?? []
    })
    const jobs = [...new Set([asked.job, ...others])]
    const before = jobs.map(knowledgeOf)
    const client = new Connection()
    this.#send(node, `wait of ${account}`, async (process) => {
      const sentMs = world.nowMs
      if (leaveMs !== null) world.after(leaveMs, 'a caller hangs up', () => client.close(), process.main)
      const wanted = { jobIds: jobs.map(({ id }) => id), waitS: waitMs / 1000, until }
      const response = await process.front.wait(account, wanted, client)
      if (response === undefined || client.hasClosed) return
      world.note(`wait: ${response.states.map((state) => state?.status).join(' ')}`)
      const known = jobs.map((job, index) => {
        this.#check(account, job, response.states[index] ?? null, before[index] ?? UNKNOWN)
        return job.account === account ? job : null
      })
      const areOver = isOver(response, until)
      const isEarly = world.nowMs - sentMs < waitMs && !response.wasCut
      if (!areOver && isEarly)
        ledger.violate('a wait ends when its jobs end or it times out', wanted.jobIds.join(' '))
      const ends = known.map((job) => (job === null ? null : (ledger.endedMs.get(job.id) ?? null)))
      const ended = ends.filter((end) => end !== null)
      if (ended.length === 0 || (until === 'all' && ended.length < ends.length)) return
      const end = until === 'all' ? Math.max(...ended) : Math.min(...ended)
      this.#noticed(Math.max(end, sentMs), `wait for ${wanted.jobIds.join(' ')}`)
    })
  }

  list({ account: which, node, limit, status }: StepOf<'list'>): void {
    const { ledger } = this.#around
    const account = accountOf(which)
    const known = ledger.accepted().filter((job) => job.account === account)
    const before = new Map(known.map((job) => [job.id, job.readStatus]))
    this.#send(node, `list of ${account}`, async (process) => {
      const found: JobPage['jobs'][number][] = []
      let beforeJobId: string | null = null
      for (let pages = 0; pages < MAX_PAGES; pages++) {
        const search = {
          limit,
          ...(status !== null && { status }),
          ...(beforeJobId !== null && { beforeJobId }),
        }
        const page: JobPage | undefined = await process.front.list(account, search)
        if (page === undefined) return
        found.push(...page.jobs)
        beforeJobId = page.next
        if (beforeJobId === null) break
      }
      const ids = found.map(({ id }) => id)
      if (ids.some((id, index) => index > 0 && id >= (ids[index - 1] ?? '')))
        ledger.violate('a list is in order, each job once', ids.join(' '))
      for (const { id, account: owner, status: listed } of found) {
        const job = ledger.jobs.get(id)
        if (job === undefined || job.account !== account || owner !== account)
          ledger.violate('accounts are isolated', `${account} lists ${id} of ${owner}`)
        else this.#learnStatus(job, listed, before.get(id) ?? null)
      }
      if (beforeJobId !== null || status !== null) return
      const missing = known.find((job) => !ids.includes(job.id) && !ledger.mayBeGone(job))
      if (missing) ledger.violate('no accepted job is lost', `${missing.id} is not in the list`)
    })
  }

  cancel({ job: which, node, isForeign, thenDelete }: StepOf<'cancel own'>): void {
    const { world, ledger } = this.#around
    const asked = this.#ownOrForeign(which, isForeign)
    if (asked === null) return
    const { job, account } = asked
    this.#send(node, `cancel of ${account}`, async (process) => {
      if (!isForeign) ledger.cancels(job)
      const response = await process.front.cancel(account, job.id, tokensOf)
      if (response === undefined) return
      const { result, record } = response
      world.note(`cancel ${job.id}: ${result}`)
      if (isForeign && result !== 'unknown')
        ledger.violate('accounts are isolated', `${account} cancels ${job.id}`)
      if (isForeign || record === null) return
      this.#learn(job, record, job.readStatus)
      if (result !== 'cancelled') return
      if (!isCancelledError(record.errorJson))
        ledger.violate('a cancelled job is cancelled', `${job.id}: ${record.errorJson}`)
      this.cancelled(job)
      if (thenDelete) await this.#delete(process, job, { account, isForeign, dropCallback: true })
    })
  }

  /** Without a fault, no node may keep calling a model server for a cancelled job. */
  cancelled(job: KnownJob): void {
    const { world, ledger } = this.#around
    const atMs = world.nowMs
    world.after(NOTICED_MS, 'look for calls', () => {
      const isAsked = [...ledger.callsInProgress].some(
        ({ tag, account, thread }) =>
          tag === job.plan.tag && account === job.account && thread.state === 'running',
      )
      const isOnly = ledger.callsOf(job.account, job.plan.tag).jobs === 1
      if (isAsked && isOnly && ledger.wasCalmSince(atMs))
        ledger.violate('a cancelled job stops running', job.id)
    })
  }

  delete({ job: which, node, isForeign, dropCallback }: StepOf<'delete own'>): void {
    const asked = this.#ownOrForeign(which, isForeign)
    if (asked === null) return
    const { job, account } = asked
    this.#send(node, `delete of ${account}`, (process) =>
      this.#delete(process, job, { account, isForeign, dropCallback }),
    )
  }

  async #delete(process: SimulatedProcess, job: KnownJob, deletion: Deletion): Promise<void> {
    const { world, ledger } = this.#around
    const { account, isForeign, dropCallback } = deletion
    const before = job.wasDeleted
    if (!isForeign) job.wasDeleted = true
    const result = await process.front.delete(account, job.id, dropCallback)
    world.note(`delete ${job.id}: ${result}`)
    if (isForeign && result !== undefined && result !== 'unknown')
      ledger.violate('accounts are isolated', `${account} deletes ${job.id}`)
    if (isForeign || result === undefined) return
    if (result === 'deleted') job.goneAtMs ??= world.nowMs
    else if (result !== 'unknown') job.wasDeleted = before
  }

  #ownOrForeign(
    which: number,
    isForeign: boolean,
  ): { readonly job: KnownJob; readonly account: string } | null {
    const { ledger } = this.#around
    const jobs = ledger.accepted()
    const job = jobs[which % jobs.length]
    if (job === undefined) return null
    const others = ACCOUNTS.filter(({ name }) => name !== job.account)
    return { job, account: isForeign ? (others[which % others.length]?.name ?? '') : job.account }
  }

  #send(node: number, label: string, work: (process: SimulatedProcess) => Promise<void>): void {
    const { world, ledger, nodes } = this.#around
    const process = runningProcess(nodes, node)
    if (process === null) return
    const send = () =>
      void work(process).catch((error) => ledger.violate('no request hits a bug', String(error?.stack)))
    world.after(world.random.next() * 2, `${label} at ${process.id}`, send, process.main)
  }

  #check(account: string, job: KnownJob, record: JobRecord | null, before: Knowledge): void {
    const ledger = this.#ledger
    if (account !== job.account) {
      if (record !== null) ledger.violate('accounts are isolated', `${account} reads ${job.id}`)
    } else if (record === null) {
      if (!ledger.mayBeGone(job)) ledger.violate('no accepted job is lost', `${job.id} cannot be read`)
    } else if (before.isGone) ledger.violate('a deleted job cannot be read', job.id)
    else this.#learn(job, record, before.status)
  }
}

interface Deletion {
  readonly account: string
  readonly isForeign: boolean
  readonly dropCallback: boolean
}

interface Knowledge {
  readonly status: string | null
  readonly isGone: boolean
}

const UNKNOWN: Knowledge = { status: null, isGone: false }

function knowledgeOf({ readStatus, goneAtMs }: KnownJob): Knowledge {
  return { status: readStatus, isGone: goneAtMs !== null }
}

function isOver({ states }: ReadJobs, until: 'any' | 'all'): boolean {
  const isOpen = (state: JobRecord | null) => state !== null && !isEnd(state.status)
  return until === 'all' ? !states.some(isOpen) : !states.every(isOpen)
}
