/** Carries out the actions of a plan: what callers send and check, what operators do, and what breaks. */
import { cancelJobsOf } from '../../src/admin/cancel-jobs.ts'
import { deleteAccount } from '../../src/admin/delete-account.ts'
import type { JobRecord } from '../../src/job/job-record.ts'
import { makeSecret } from '../../src/net/signature.ts'
import type { Created } from './front.ts'
import type { KnownJob, KnownRequest } from './ledger.ts'
import type { SimulatedNode, SimulatedProcess, Surroundings } from './node.ts'
import type { Action, ReceiverFault, Step } from './plan.ts'

const NO_CAPS = { monthlyJobs: null, monthlyTokens: null, openJobs: null, storedBytes: null }
const STATUSES = ['pending', 'assigned', 'ended']
const rankOf = (status: string | null) =>
  status === null ? -1 : STATUSES.indexOf(isEnd(status) ? 'ended' : status)
const isEnd = (status: string) => status === 'completed' || status === 'failed'

type StepOf<Kind extends Step['kind']> = Extract<Step, { readonly kind: Kind }>

export interface ActorOptions extends Surroundings {
  readonly nodes: readonly SimulatedNode[]
  readonly receiverFaults: Map<string, ReceiverFault>
}

export class Actors {
  readonly #around: ActorOptions
  /** What a caller waits for. */
  openRequests = 0

  constructor(around: ActorOptions) {
    this.#around = around
  }

  perform(step: Action | Step): void {
    switch (step.kind) {
      case 'create':
        this.create(step)
        break
      case 'read':
        this.#read(step)
        break
      case 'store':
      case 'upstream':
      case 'receiver':
        this.#break(step)
        break
      case 'kill':
      case 'restart':
      case 'pause':
      case 'clock':
        this.#disturb(step)
        break
      case 'cancel called':
        this.#cancelCalled(step)
        break
      default:
        if ('job' in step) this.#operateOnJob(step)
        else this.#operateOnAccount(step)
    }
  }

  create(step: StepOf<'create'>): void {
    const { accounts } = this.#around.plan
    const process = this.#processOf(step.node)
    if (process !== null) this.request(accounts[step.account % accounts.length]?.name ?? '', process, step)
  }

  /** A caller of the account creates jobs. */
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
      const onWaiting = ({ leave }: { readonly leave: () => void }) => {
        if (leaveMs !== null) world.after(leaveMs, `a caller of ${process.id} hangs up`, leave, process.main)
      }
      const created = process.front.create({ request, waitMs, key, onWaiting })
      created.then(
        (response) => {
          process.forget(closed)
          closed()
          world.after(world.random.next() * 2, 'response', () => this.#responded(request, response))
        },
        (error) => ledger.violate('no request meets a bug', String(error?.stack)),
      )
    }
    world.after(world.random.next() * 2, `request of ${account} to ${process.id}`, send, process.main)
  }

  #responded(request: KnownRequest, { status, jobIds, record }: Created): void {
    const { ledger, world } = this.#around
    world.note(`response ${status} ${jobIds.join(' ')}`)
    if (status !== 200 && status !== 202) return
    if (jobIds.length !== request.plans.length) {
      ledger.violate('P6 a batch is all or nothing', `${jobIds.length} of ${request.plans.length} jobs`)
    }
    const jobs = jobIds.map((id) => ledger.jobs.get(id))
    for (const job of jobs) {
      if (job === undefined) ledger.violate('a response names jobs of its request', jobIds.join(' '))
      else if (job.account !== request.account) {
        ledger.violate('P15 accounts are apart', `${request.account} got the id ${job.id} of ${job.account}`)
      } else job.isAccepted = true
    }
    request.answers.push(...jobIds)
    const [first] = jobs
    if (first && record) this.#learn(first, record, first.readStatus)
  }

  /** A caller has read its job. @param before the status that it knew when it asked */
  #learn(job: KnownJob, { status, contentJson, errorJson }: JobRecord, before: string | null): void {
    const { ledger } = this.#around
    if (rankOf(status) < rankOf(before)) {
      ledger.violate('reads never go back', `${job.id} was ${before} and is ${status}`)
    }
    if (rankOf(status) > rankOf(job.readStatus)) job.readStatus = status
    if (!isEnd(status)) return
    const result = `${status} ${contentJson} ${errorJson}`
    if (job.readResult !== null && job.readResult !== result) {
      ledger.violate('P2 one final state, never changed', `${job.id}: ${job.readResult}, then ${result}`)
    }
    job.readResult = result
  }

  #read({ job: which, node, isForeign }: StepOf<'read'>): void {
    const { world, plan, ledger } = this.#around
    const jobs = ledger.accepted()
    const job = jobs[which % jobs.length]
    const process = this.#processOf(node)
    if (job === undefined || process === null) return
    const others = plan.accounts.filter(({ name }) => name !== job.account)
    const account = isForeign ? (others[which % others.length]?.name ?? '') : job.account
    const before = job.readStatus
    const send = () =>
      void process.front.read(account, job.id).then((record) => {
        world.note(`read ${job.id}: ${record?.status}`)
        if (isForeign && record) ledger.violate('P15 accounts are apart', `${account} reads ${job.id}`)
        if (isForeign || record === undefined) return
        if (record !== null) this.#learn(job, record, before)
        else if (!ledger.isDeleted(job))
          ledger.violate('P1 no accepted job is lost', `${job.id} cannot be read`)
      })
    world.after(world.random.next() * 2, `read of ${account} at ${process.id}`, send, process.main)
  }

  #operateOnJob({ kind, job: which, node }: StepOf<'cancel' | 'delete job' | 'replay'>): void {
    const { ledger } = this.#around
    const jobs = [...ledger.jobs.values()]
    const job = jobs[which % jobs.length]
    if (job === undefined) return
    if (kind === 'cancel') {
      job.wasCancelled = true
      ledger.mayLoseUsage = true
    }
    this.#operate(node, kind, (process) => {
      const nowMs = process.clock.nowMs()
      if (kind === 'cancel') return process.store.cancelJob(job.id, nowMs)
      if (kind === 'delete job') return deleteJob(process, job)
      return process.store.replayCallback(job.id, { nowMs, retentionMs: 1e9 })
    })
  }

  /** Its process is told by the one that the operator asks. */
  #cancelCalled({ call: which }: StepOf<'cancel called'>): void {
    const { ledger } = this.#around
    const calls = [...ledger.callsInProgress]
    const call = calls[which % calls.length]
    const jobs = [...ledger.jobs.values()]
    const at = jobs.findIndex(({ account, plan }) => account === call?.account && plan.tag === call.tag)
    if (at >= 0) this.#operateOnJob({ kind: 'cancel', job: at, node: which })
  }

  #operateOnAccount(
    step: StepOf<'cancel all' | 'suspend' | 'resume' | 'rotate secret' | 'delete account' | 'cap'>,
  ): void {
    const { world, plan, ledger } = this.#around
    const { kind, node } = step
    const account = plan.accounts[step.account % plan.accounts.length]?.name ?? ''
    if (kind === 'cancel all') {
      ledger.cancelledAccounts.add(account)
      ledger.mayLoseUsage = true
    }
    if (kind === 'delete account') ledger.deletedAccounts.add(account)
    this.#operate(node, kind, ({ store, clock }) => {
      switch (kind) {
        case 'cancel all':
          return cancelJobsOf(store, clock, { account, running: step.running })
        case 'cap':
          return store.setCaps(account, { ...NO_CAPS, openJobs: step.openJobs })
        case 'rotate secret': {
          const secret = makeSecret((bytes) => Buffer.from(world.random.hex(bytes), 'hex'))
          ledger.addSecret(account, secret)
          return store.rotateSecret(account, secret, clock.nowMs())
        }
        case 'delete account':
          return deleteAccount(store, clock, { account, scrub: false, onProgress: () => {} })
        default:
          return store.suspend(account, kind === 'suspend' ? clock.nowMs() : null)
      }
    })
  }

  /** What fails is not repeated. */
  #operate(node: number, kind: string, work: (process: SimulatedProcess) => Promise<unknown>): void {
    const process = this.#processOf(node)
    if (process === null) return
    const { world } = this.#around
    const run = () =>
      void process.front
        .serve(() => work(process))
        .then(
          () => process.engine.cancellation.apply(),
          () => {},
        )
    world.after(world.random.next() * 2, `operator at ${process.id}: ${kind}`, run, process.main)
  }

  #break(step: StepOf<'store' | 'upstream' | 'receiver'>): void {
    const { world, plan, ledger, faults, upstreams, receiverFaults } = this.#around
    const ends = (what: () => void) => void world.after(step.ms, `end of ${step.kind} ${step.fault}`, what)
    if (step.kind === 'store') {
      const { fault } = step
      if (fault !== 'slow') ledger.mayLoseUsage = true
      faults.add(fault)
      ends(() => faults.delete(fault))
    } else if (step.kind === 'upstream') {
      const all = [...upstreams.values()]
      const upstream = all[step.upstream % all.length]
      if (upstream === undefined) return
      upstream.fault = step.fault
      ends(() => {
        if (upstream.fault === step.fault) upstream.fault = null
      })
    } else {
      const account = plan.accounts[step.account % plan.accounts.length]?.name ?? ''
      receiverFaults.set(account, step.fault)
      ends(() => {
        if (receiverFaults.get(account) === step.fault) receiverFaults.delete(account)
      })
    }
  }

  #disturb(step: StepOf<'kill' | 'restart' | 'pause' | 'clock'>): void {
    const { world, ledger, nodes } = this.#around
    const node = nodes[step.node % nodes.length]
    if (node === undefined) return
    ledger.mayLoseUsage = true
    if (step.kind === 'kill') node.kill(node.process, step.ms)
    else if (step.kind === 'clock') node.clockOffsetMs += step.ms
    else if (step.kind === 'pause') node.process?.pause(step.ms, step.what)
    else node.stop(() => void world.after(step.ms, `${node.name} starts`, () => node.start()))
  }

  #processOf(node: number): SimulatedProcess | null {
    const { nodes } = this.#around
    const process = nodes[node % nodes.length]?.process ?? null
    return process?.hasStarted ? process : null
  }
}

async function deleteJob({ store }: SimulatedProcess, job: KnownJob): Promise<void> {
  const before = job.wasDeleted
  job.wasDeleted = true
  if ((await store.deleteJob(job.id)) === 'not ended') job.wasDeleted = before
}
