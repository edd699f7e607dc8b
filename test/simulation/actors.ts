/** Carries out the actions of a simulation's plan: what callers send and check, what operators do, and what fails. */
import { cancelJobsOf, deleteAccount } from '../../src/admin/deletion.ts'
import { makeSecret } from '../../src/net/signing-secrets.ts'
import type { OwnCaps } from '../../src/store/account-store.ts'
import { cancelBatch, submitBatch } from './batches.ts'
import { type CallerOptions, Callers } from './callers.ts'
import type { KnownJob } from './ledger.ts'
import { runningProcess, type SimulatedProcess } from './node.ts'
import { accountOf, type ReceiverFault, type Step } from './plan.ts'

const UPGRADE_PAUSE_MS = 2000
type StepOf<Kind extends Step['kind']> = Extract<Step, { readonly kind: Kind }>

export interface ActorOptions extends CallerOptions {
  readonly receiverFaults: Map<string, ReceiverFault>
}

export class Actors {
  readonly #around: ActorOptions
  readonly callers: Callers
  upgrades = 0

  readonly #handlers: { readonly [Kind in Step['kind']]: (step: StepOf<Kind>) => void }

  constructor(around: ActorOptions) {
    this.#around = around
    const callers = new Callers(around)
    this.callers = callers
    const onJob = this.#operateOnJob.bind(this)
    const onAccount = this.#operateOnAccount.bind(this)
    const breaks = this.#break.bind(this)
    const disturbs = this.#disturb.bind(this)
    this.#handlers = {
      create: (step) => callers.create(step),
      read: (step) => callers.read(step),
      wait: (step) => callers.wait(step),
      list: (step) => callers.list(step),
      'cancel own': (step) => callers.cancel(step),
      'delete own': (step) => callers.delete(step),
      'submit batch': (step) => submitBatch(around, step),
      'cancel batch': (step) => cancelBatch(around, step),
      'cancel called': (step) => this.#cancelCalled(step),
      'store clock': (step) => this.#jump(step),
      upgrade: ({ ms }) => {
        this.upgrades += 1
        this.#upgrade(ms, 0)
      },
      ...{ cancel: onJob, 'delete job': onJob, replay: onJob },
      ...{ 'cancel all': onAccount, suspend: onAccount, resume: onAccount, cap: onAccount },
      ...{ 'rotate secret': onAccount, 'delete account': onAccount },
      ...{ store: breaks, upstream: breaks, receiver: breaks },
      ...{ kill: disturbs, restart: disturbs, pause: disturbs, clock: disturbs },
    }
  }

  perform(step: Step): void {
    // The compiler does not know that the kind and the step belong together.
    const handle = this.#handlers[step.kind] as (step: Step) => void
    handle(step)
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
    if (kind === 'replay') job.wasReplayed = true
    this.#operate(node, kind, (process) => {
      const nowMs = process.clock.nowMs()
      if (kind === 'cancel') return this.#cancel(process, job)
      if (kind === 'delete job') return deleteJob(process, job)
      return process.store.replayCallback(job.id, { nowMs, retentionMs: 1e9 })
    })
  }

  #cancelCalled({ call: which }: StepOf<'cancel called'>): void {
    const { ledger } = this.#around
    const calls = [...ledger.callsInProgress]
    const call = calls[which % calls.length]
    const jobs = [...ledger.jobs.values()]
    const at = jobs.findIndex(({ account, plan }) => account === call?.account && plan.tag === call.tag)
    if (at >= 0) this.#operateOnJob({ kind: 'cancel', job: at, node: which })
  }

  async #cancel({ store, clock }: SimulatedProcess, job: KnownJob): Promise<void> {
    if ((await store.cancelJob(job.id, clock.nowMs())) === 'cancelled') this.callers.cancelled(job)
  }

  #operateOnAccount(
    step: StepOf<'cancel all' | 'suspend' | 'resume' | 'rotate secret' | 'delete account' | 'cap'>,
  ): void {
    const { world, ledger } = this.#around
    const { kind, node } = step
    const account = accountOf(step.account)
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
          return store.setCaps(account, capsOf(step))
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

  /** An operator does not repeat an action that fails. */
  #operate(node: number, kind: string, work: (process: SimulatedProcess) => Promise<unknown>): void {
    const process = runningProcess(this.#around.nodes, node)
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
    const { world, ledger, faults, upstreams, receiverFaults } = this.#around
    const ends = (what: () => void) => void world.after(step.ms, `end of ${step.kind} ${step.fault}`, what)
    if (step.kind === 'store') {
      const { fault } = step
      if (fault !== 'slow') ledger.mayLoseUsage = true
      ledger.troubledFor(step.ms)
      if (fault !== 'slow') ledger.storeFaultFor(step.ms)
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
      const account = accountOf(step.account)
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
    ledger.troubledFor(step.kind === 'clock' ? 0 : step.ms)
    if (step.kind === 'kill') node.kill(node.process, step.ms)
    else if (step.kind === 'clock') {
      node.clockOffsetMs += step.ms
      ledger.clockJumpsMs += Math.abs(step.ms)
    } else if (step.kind === 'pause') node.process?.pause(step.ms, step.what)
    else node.stop(() => void world.after(step.ms, `${node.name} starts`, () => node.start()))
  }

  #jump({ ms }: StepOf<'store clock'>): void {
    const { world, ledger, storeClock } = this.#around
    ledger.mayLoseUsage = true
    ledger.troubledFor(0)
    storeClock.offsetMs += ms
    ledger.storeClockJumped = true
    storeClock.jumpedMs = world.nowMs
  }

  /** Stops the node and starts it again, and then each of the following nodes. */
  #upgrade(ms: number, index: number): void {
    const { world, ledger, nodes } = this.#around
    const node = nodes[index]
    if (node === undefined) {
      this.upgrades -= 1
      return
    }
    ledger.troubledFor(ms)
    const next = () => {
      ledger.troubledFor(0)
      node.start()
      world.after(UPGRADE_PAUSE_MS, 'the upgrade goes on', () => this.#upgrade(ms, index + 1))
    }
    const { process } = node
    // A node that is killed while it stops is started again as well.
    if (process !== null && node.stop(() => {}))
      process.whenEnded(() => void world.after(ms, `${node.name} starts`, next))
    else next()
  }
}

function capsOf(step: StepOf<'cap'>): OwnCaps {
  const { openJobs, monthlyJobs = null, monthlyTokens = null, storedBytes = null } = step
  const { monthlyCost = null } = step
  return { openJobs, monthlyJobs, monthlyTokens, storedBytes, monthlyCost }
}

async function deleteJob({ store }: SimulatedProcess, job: KnownJob): Promise<void> {
  const before = job.wasDeleted
  job.wasDeleted = true
  if ((await store.deleteJob(job.id)) === 'not ended') job.wasDeleted = before
}
