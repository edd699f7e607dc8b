/** Starts a callback dispatcher that sends callbacks from a real store to real receivers. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { CallbackDispatcher } from '../../src/callbacks/dispatcher.ts'
import { systemClock } from '../../src/clock.ts'
import type { Job, Outcome } from '../../src/job/job.ts'
import { createPoster } from '../../src/net/post.ts'
import { ByteShare, callbackBytes } from '../../src/sharing/byte-budget.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { type Store, StoreUnavailable } from '../../src/store/store.ts'
import { FakeClock } from '../fake-clock.ts'
import { type ReceivedRequest, type ReceiverReply, startReceiver } from '../receiver.ts'
import { acceptance, newJob, settlement } from '../store-contract/fixtures.ts'
import { AwaitedList } from './awaited-list.ts'
import { ALLOW_LOOPBACK, IDLE_LIMITS } from './callback-poster.ts'

/** After this time, a stopping dispatcher aborts the attempts in progress. */
const STOP_GRACE_MS = 5000
export const STALL: ReceiverReply = { kind: 'stall' }

export interface StartOptions {
  readonly first?: number
  /** The default is `first`. */
  readonly retry?: number
  readonly perOrigin?: number
  readonly pausesS?: readonly number[]
  readonly maxBodyBytes?: number
  readonly timeoutMs?: number
  /** The receiver has the addresses 127.0.0.1, 127.0.0.2 and so on. `host` says which of them got the request. */
  readonly reply?: (host: string, request: ReceivedRequest) => ReceiverReply
  readonly wrap?: (store: Store) => Store
  /** If true, time is the system's. Tests of behavior that depends on short timers need this. */
  readonly realTime?: boolean
}

export async function start(t: TestContext, options: StartOptions = {}) {
  const { first = 64, retry = first, perOrigin = 8, pausesS = [0, 5, 60] } = options
  const { timeoutMs = 15_000, maxBodyBytes = 1e8, reply, wrap = (store) => store } = options
  const folder = await mkdtemp(join(tmpdir(), 'parley-dispatcher-'))
  const fake = new FakeClock()
  const clock = options.realTime ? systemClock : fake
  const onFatal = (error: Error) => {
    throw error
  }
  const path = join(folder, 'parley.db')
  const store = await openSqliteStore({ path, maxQueued: 10_000, nowMs: () => clock.nowMs(), onFatal })
  const hostOf = ({ headers }: ReceivedRequest) => String(headers.host).split(':')[0] ?? ''
  const receiver = await startReceiver({
    host: '0.0.0.0',
    reply: (request) => reply?.(hostOf(request), request) ?? { kind: 'answer' },
  })
  const ended = new Ended()
  const errors: unknown[] = []
  const dispatcher = new CallbackDispatcher({
    store: wrap(store),
    node: 'node-a',
    poster: createPoster({ rules: ALLOW_LOOPBACK, timeoutMs, idle: IDLE_LIMITS, clock }),
    clock,
    random: () => 0.5,
    timeoutMs,
    pausesS,
    slots: { first, retry },
    slotsPerOrigin: perOrigin,
    bytes: new ByteShare(callbackBytes(maxBodyBytes)),
    onAttempt: ({ jobId }, { error }, next) => ended.add([jobId, next, error]),
    onError: (error) => errors.push(error),
  })
  t.after(async () => {
    const stopped = dispatcher.stop()
    fake.advance(STOP_GRACE_MS)
    await stopped
    await receiver.close()
    await store.close()
    await rm(folder, { recursive: true })
  })
  for (const account of ['acme', 'other']) {
    const key = { id: `key-${account}`, hash: account, account, tier: 'user_max', createdAtMs: 0 }
    await store.createKey({ ...key, secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', expiresAtMs: null })
  }

  async function owe(host = 1, account = 'acme', agoMs = 0, content?: string): Promise<string> {
    const [jobId = ''] = await oweSeveral(1, host, account, agoMs, content)
    return jobId
  }
  async function oweSeveral(count: number, host = 1, account = 'acme', agoMs = 0, content = 'Hello back') {
    const url = `http://127.0.0.${host}:${receiver.port}/hook`
    const nowMs = clock.nowMs() - agoMs
    const callback = { url, headers: {}, payloadJson: '{}' }
    const jobs = Array.from({ length: count }, () => newJob({ account, callback, createdAtMs: nowMs }))
    await store.accept(acceptance(jobs, { handedOff: true }))
    const outcome: Outcome = { status: 'completed', contentJson: JSON.stringify(content) }
    const settle = ({ id }: Job) => store.settle(settlement({ jobId: id, attempt: 1 }, { nowMs, outcome }))
    await Promise.all(jobs.map(settle))
    return jobs.map(({ id }) => id)
  }
  /** Stores jobs as `oweSeveral` does, and lets the dispatcher look for callbacks of their account. */
  async function oweNow(...args: Parameters<typeof oweSeveral>): Promise<string[]> {
    const ids = await oweSeveral(...args)
    dispatcher.notify(args[2] ?? 'acme', '')
    return ids
  }
  const arrivedAt = (host: number) =>
    receiver.requests.filter((one) => hostOf(one) === `127.0.0.${host}`).length
  return { store, dispatcher, clock: fake, receiver, ended, errors, owe, oweSeveral, oweNow, arrivedAt }
}

export class Ended extends AwaitedList<[jobId: string, next: string, error: string | null]> {
  async next(count: number, next: string): Promise<void> {
    await this.when(() => this.count(next) === count)
  }

  delivered(count: number): Promise<void> {
    return this.next(count, 'delivered')
  }

  get nexts(): string[] {
    return this.all.map(([, next]) => next)
  }

  count(next: string): number {
    return this.nexts.filter((one) => one === next).length
  }
}

export function instead<Name extends 'loadCallback' | 'recordCallback' | 'deferCallbacks'>(
  store: Store,
  name: Name,
  method: Store[Name],
): Store {
  return new Proxy(store, {
    get(target, property) {
      if (property === name) return method
      const value = Reflect.get(target, property)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

export function refusing(
  store: Store,
  name: 'loadCallback' | 'recordCallback',
  refuses: () => boolean,
): Store {
  const refused = () => Promise.reject(new StoreUnavailable('full'))
  if (name === 'loadCallback') {
    return instead(store, name, (callback) => (refuses() ? refused() : store.loadCallback(callback)))
  }
  return instead(store, name, (record) => (refuses() ? refused() : store.recordCallback(record)))
}
