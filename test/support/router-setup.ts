/** Starts a router with the upstreams `a` and `b`, which it calls over HTTP, for tests of the router. */
import type { TestContext } from 'node:test'
import { type ModelSettings, UPSTREAM_DEFAULTS, type UpstreamSettings } from '../../src/config/settings.ts'
import { Stop, type StopSignal } from '../../src/job/stop.ts'
import type { CallEvent, FailedCall } from '../../src/upstreams/call-target.ts'
import { FIRST_CHECK_MS } from '../../src/upstreams/circuit-breaker.ts'
import type { AnswerForm, CallRecord, ModelRequest, RoutedReply } from '../../src/upstreams/model-server.ts'
import { OpenAiClient } from '../../src/upstreams/openai-client.ts'
import { ModelRouter } from '../../src/upstreams/router.ts'
import type { RoutedTier } from '../../src/upstreams/routing-table.ts'
import type { RateLimits } from '../../src/upstreams/target-rates.ts'
import { FakeClock } from '../fake-clock.ts'
import { type ModelServerForTests, reply, type Script, startModelServer } from '../model-server.ts'
import { readHere } from './openai-client-setup.ts'

export const never = new Stop()
const TIER = 'user_max'
export const CALL_TIMEOUT_MS = UPSTREAM_DEFAULTS.call_timeout_seconds * 1000

export const isPause = (ms: number) => ms !== CALL_TIMEOUT_MS

export interface RouterSetup {
  readonly router: ModelRouter
  readonly clock: FakeClock
  readonly events: CallEvent[]
  readonly failed: FailedCall[]
  readonly a: ModelServerForTests
  readonly b: ModelServerForTests
}

export interface SetupOptions {
  readonly a?: Script
  readonly b?: Script
  readonly models?: Record<string, ModelSettings>
  readonly tiers?: readonly RoutedTier[]
  readonly random?: () => number
  readonly maxConcurrency?: number
  /** If true, the limit of concurrent calls starts at its maximum and may fall. Otherwise it does not change. */
  readonly findsConcurrency?: boolean
  readonly isPatient?: boolean
  readonly slots?: number
  readonly rate?: RateLimits
  /** Maps upstreams to settings that replace the defaults. */
  readonly settings?: Readonly<Record<string, Partial<UpstreamSettings>>>
}

/** The model `one` has a target on `a`. The model `two` has one on `a` and then one on `b`. */
export async function startRouter(t: TestContext, options: SetupOptions = {}): Promise<RouterSetup> {
  const clock = new FakeClock()
  const events: CallEvent[] = []
  const failed: FailedCall[] = []
  const maxConcurrency = options.maxConcurrency ?? 16
  const startConcurrency = options.findsConcurrency === true ? maxConcurrency : null
  const [a, b] = await Promise.all([startModelServer(), startModelServer()])
  if (options.a !== undefined) a.script = options.a
  if (options.b !== undefined) b.script = options.b
  const server = (name: string, { baseUrl }: ModelServerForTests) =>
    new OpenAiClient({
      name,
      apiKey: null,
      clock,
      readLarge: readHere,
      settings: {
        ...UPSTREAM_DEFAULTS,
        base_url: baseUrl,
        max_concurrency: maxConcurrency,
        ...options.settings?.[name],
      },
    })
  const [first, second] = [
    { upstream: 'a', model: 'm' },
    { upstream: 'b', model: 'n' },
  ]
  const models = options.models ?? { one: { targets: [first] }, two: { targets: [first, second] } }
  const router = new ModelRouter({
    upstreams: new Map([
      ['a', { server: server('a', a), maxConcurrency, startConcurrency, rate: options.rate ?? {} }],
      ['b', { server: server('b', b), maxConcurrency, startConcurrency }],
    ]),
    models,
    tiers: options.tiers ?? [{ name: TIER, models: new Set(Object.keys(models)), weight: 1 }],
    clock,
    random: options.random ?? (() => 0.5),
    isPatient: options.isPatient ?? false,
    ...(options.slots && { slots: options.slots }),
    onCall: (call) => events.push(call),
    onFailedCall: (call) => failed.push(call),
  })
  t.after(() => Promise.all([router.close(), a.close(), b.close()]))
  return { router, clock, events, failed, a, b }
}

/** Some of these fields are parts of the request's prompt. */
export interface RequestOptions extends Partial<ModelRequest> {
  readonly content?: string
  readonly form?: AnswerForm
  readonly options?: object
}

export function modelRequest({ content, form, options, ...over }: RequestOptions = {}): ModelRequest {
  const account = over.account ?? 'acme'
  const messagesJson = JSON.stringify([{ role: 'user', content: content ?? 'Hi' }])
  const optionsJson = options && JSON.stringify(options)
  return {
    jobId: 'job',
    tries: 0,
    account,
    model: 'one',
    tier: TIER,
    inputTokens: 10,
    prompt: { account, messagesJson, form: form ?? { kind: 'text' }, ...(optionsJson && { optionsJson }) },
    ...over,
  }
}

interface AskOptions extends RequestOptions {
  readonly signal?: StopSignal
  readonly pauses?: number
}

export async function ask({ router, clock }: RouterSetup, options: AskOptions = {}): Promise<RoutedReply> {
  const { signal = never, pauses = 0, ...request } = options
  const asked = router.ask(modelRequest(request), signal)
  await passPauses(clock, pauses)
  return asked
}

/** Each call becomes a text with these fields of its record. A dash stands for an absent field. */
export const callsOf = ({ calls }: RoutedReply, ...fields: readonly (keyof CallRecord)[]): string[] =>
  calls.map((call) => fields.map((field) => call[field] ?? '-').join(' '))

export async function answerAll(server: ModelServerForTests, asked: readonly Promise<unknown>[]) {
  server.script = () => undefined
  server.release()
  await Promise.all(asked)
}

/**
 * Advances the clock past the next check of target a/m, and waits until the router has its result.
 * @param isCheck whether a timer is the one of the check
 */
export async function passCheck(
  { router, clock }: RouterSetup,
  ms = FIRST_CHECK_MS,
  isCheck = (dueMs: number) => dueMs === ms,
): Promise<void> {
  const changed = new Promise<void>((resolve) => router.watch(resolve))
  await clock.timerSet(isCheck)
  clock.advance(ms)
  await changed
}

/** Advances the clock past this many pauses. Returns their lengths in milliseconds. */
export async function passPauses(clock: FakeClock, count: number): Promise<number[]> {
  const pauses: number[] = []
  for (let n = 0; n < count; n++) {
    const ms = await clock.timerSet(isPause)
    pauses.push(ms)
    clock.advance(ms)
  }
  return pauses
}

export const failing: Script = () => reply.status(503)
