/** Creates clients for tests: of a Parley directly, or through a proxy that fails, in which case their pauses end at once. */
import assert from 'node:assert/strict'
import type { Clock } from '../../client/src/clock.ts'
import {
  type BatchJob,
  Parley as Client,
  type ParleyOptions,
  type SingleJob,
  type TextFormat,
} from '../../client/src/index.ts'
import { type Stage, type StageOptions, startStage } from '../http/stage.ts'
import type { Lifetime, Parley } from '../parley.ts'
import { type SharedStage, shareStage } from '../v1/shared-stage.ts'
import { type FaultyProxy, type ProxyOptions, startFaultyProxy } from './faulty-proxy.ts'

/** `HurriedClock` never fires a timer of this length, which is longer than any of the client's pauses. */
const NEVER_S = 1_000_000

/** Timers fire at once and advance the time. Those of `NEVER_S`, such as the default timeout of requests, never fire. */
export class HurriedClock implements Clock {
  readonly pauses: number[] = []
  #ms = 0

  nowMs(): number {
    return this.#ms
  }

  steadyMs(): number {
    return this.#ms
  }

  after(ms: number, callback: () => void): () => void {
    if (ms >= NEVER_S * 1000) return () => {}
    const immediate = setImmediate(() => {
      this.pauses.push(ms)
      this.#ms += ms
      callback()
    })
    return () => clearImmediate(immediate)
  }
}

export function clientOf(
  { url }: { readonly url: string },
  apiKey: string,
  options: ParleyOptions = {},
): Client {
  return new Client({ baseUrl: url, apiKey, requestTimeout: NEVER_S, ...options })
}

export interface Faulty {
  readonly client: Client
  readonly proxy: FaultyProxy
  readonly clock: HurriedClock
}

export async function faultyClient(
  t: Lifetime,
  parley: Parley,
  key: string,
  { older = false, ...options }: ParleyOptions & ProxyOptions = {},
): Promise<Faulty> {
  const proxy = await startFaultyProxy(t, parley.url, { older })
  const clock = new HurriedClock()
  return { client: clientOf(proxy, key, { clock, ...options }), proxy, clock }
}

export const asking = (content: string): BatchJob<TextFormat> & SingleJob<TextFormat> => ({
  model: 'gpt-5-mini',
  response_format: { format: 'text' },
  messages: [{ role: 'user', content }],
})

export const numbered = (count: number) => Array.from({ length: count }, (_, at) => asking(`number ${at}`))

export interface FaultyPlace extends Omit<Faulty, 'clock'>, Pick<SharedStage, 'parley' | 'models'> {
  readonly key: string
  readonly clientClock: HurriedClock
}

export async function startFaulty(
  t: Lifetime,
  { tier = 'user_max', client = {}, ...options }: StageOptions & StartOptions = {},
): Promise<FaultyPlace & Pick<Stage, 'clock'>> {
  const stage = await startStage(t, options)
  const key = await stage.parley.key(tier)
  const { clock: clientClock, ...faulty } = await faultyClient(t, stage.parley, key, client)
  return { ...stage, ...faulty, key, clientClock }
}

interface StartOptions {
  readonly tier?: string
  readonly client?: ParleyOptions & ProxyOptions
}

/** Does the same as `startFaulty`, but the tests of a suite share one Parley. */
export function shareFaulty(options: StageOptions = {}) {
  const enter = shareStage(options)
  return async (t: Lifetime, { tier, client = {} }: StartOptions = {}): Promise<FaultyPlace> => {
    const stage = await enter()
    const key = tier ? await stage.parley.key(tier, `${stage.account}-${tier}`) : stage.key
    const { clock: clientClock, ...faulty } = await faultyClient(t, stage.parley, key, client)
    return { ...stage, ...faulty, key, clientClock }
  }
}

export async function reasonOf<T>(call: Promise<unknown>, type: new (...args: never) => T): Promise<T> {
  const reason = await call.then(
    () => assert.fail('it was not rejected'),
    (error: unknown) => error,
  )
  assert.ok(reason instanceof type, String(reason))
  return reason
}
