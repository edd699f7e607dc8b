/** A router with the upstreams `a` and `b`, which it calls over HTTP, for tests of the router. */
import type { TestContext } from 'node:test'
import { type ModelSettings, UPSTREAM_DEFAULTS, type UpstreamSettings } from '../../src/config/settings.ts'
import { Stop } from '../../src/job/stop.ts'
import type { CallEvent, FailedCall } from '../../src/upstreams/call-target.ts'
import type { ModelRequest } from '../../src/upstreams/model-server.ts'
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

/** Whether a timer is a pause of the router, not a timeout of a call. */
export const isPause = (ms: number) => ms !== CALL_TIMEOUT_MS

export interface RouterSetup {
  readonly router: ModelRouter
  readonly clock: FakeClock
  readonly events: CallEvent[]
  readonly a: ModelServerForTests
  readonly b: ModelServerForTests
}

interface SetupOptions {
  readonly a?: Script
  readonly b?: Script
  readonly models?: Record<string, ModelSettings>
  readonly tiers?: readonly RoutedTier[]
  readonly random?: () => number
  readonly maxConcurrency?: number
  /** If true, the limit of concurrent calls starts at its maximum and may fall. Otherwise it does not change. */
  readonly findsConcurrency?: boolean
  readonly onFailedCall?: (call: FailedCall) => void
  readonly isPatient?: boolean
  readonly slots?: number
  /** The rate of the upstream `a`. */
  readonly rate?: RateLimits
  /** Settings of each upstream, which replace the defaults. */
  readonly settings?: Readonly<Record<string, Partial<UpstreamSettings>>>
}

/** Starts a router. The model `one` has a target on `a`; the model `two` has one on `a` and then one on `b`. */
export async function startRouter(t: TestContext, options: SetupOptions = {}): Promise<RouterSetup> {
  const clock = new FakeClock()
  const events: CallEvent[] = []
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
  const models = options.models ?? {
    one: { targets: [{ upstream: 'a', model: 'm' }] },
    two: {
      targets: [
        { upstream: 'a', model: 'm' },
        { upstream: 'b', model: 'n' },
      ],
    },
  }
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
    ...(options.onFailedCall && { onFailedCall: options.onFailedCall }),
  })
  t.after(() => Promise.all([router.close(), a.close(), b.close()]))
  return { router, clock, events, a, b }
}

export function modelRequest(model: string, rest: Partial<ModelRequest> = {}): ModelRequest {
  const messagesJson = '[{"role":"user","content":"Hi"}]'
  const prompt = { account: 'acme', messagesJson, form: { kind: 'text' } } as const
  const account = rest.account ?? 'acme'
  return {
    jobId: 'job',
    tries: 0,
    account,
    model,
    tier: TIER,
    inputTokens: 10,
    prompt: { ...prompt, account },
    ...rest,
  }
}

/** Advances the clock past each pause of the router. Returns the lengths of the pauses in milliseconds. */
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
