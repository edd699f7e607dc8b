import type { TestContext } from 'node:test'
import { type ModelSettings, UPSTREAM_DEFAULTS, type UpstreamSettings } from '../../src/config/settings.ts'
import { Stop } from '../../src/job/stop.ts'
import type { Question } from '../../src/upstreams/model-server.ts'
import { OpenAiClient } from '../../src/upstreams/openai-client.ts'
import { type CallEvent, ModelRouter } from '../../src/upstreams/router.ts'
import { FakeClock } from '../fake-clock.ts'
import { type ModelServerForTests, reply, type Script, startModelServer } from '../model-server.ts'

export const never = new Stop()
export const CALL_TIMEOUT_MS = UPSTREAM_DEFAULTS.call_timeout_seconds * 1000

/** The waits of the router, and not the deadlines of calls. */
export const isPause = (ms: number) => ms !== CALL_TIMEOUT_MS

export interface Scene {
  readonly router: ModelRouter
  readonly clock: FakeClock
  readonly events: CallEvent[]
  readonly a: ModelServerForTests
  readonly b: ModelServerForTests
}

interface SceneOptions {
  readonly a?: Script
  readonly b?: Script
  readonly models?: Record<string, ModelSettings>
  readonly random?: () => number
  readonly maxConcurrency?: number
  /** By upstream, beside the defaults. */
  readonly settings?: Readonly<Record<string, Partial<UpstreamSettings>>>
}

/** Two upstreams, `a` and `b`; `one` is had at a, `two` at a and then b. */
export async function scene(t: TestContext, options: SceneOptions = {}): Promise<Scene> {
  const clock = new FakeClock()
  const events: CallEvent[] = []
  const maxConcurrency = options.maxConcurrency ?? 16
  const [a, b] = await Promise.all([startModelServer(), startModelServer()])
  if (options.a !== undefined) a.script = options.a
  if (options.b !== undefined) b.script = options.b
  const server = (name: string, { baseUrl }: ModelServerForTests) =>
    new OpenAiClient({
      name,
      apiKey: null,
      clock,
      settings: {
        ...UPSTREAM_DEFAULTS,
        base_url: baseUrl,
        max_concurrency: maxConcurrency,
        ...options.settings?.[name],
      },
    })
  const router = new ModelRouter({
    upstreams: new Map([
      ['a', { server: server('a', a), maxConcurrency }],
      ['b', { server: server('b', b), maxConcurrency }],
    ]),
    models: options.models ?? {
      one: { targets: [{ upstream: 'a', model: 'm' }] },
      two: {
        targets: [
          { upstream: 'a', model: 'm' },
          { upstream: 'b', model: 'n' },
        ],
      },
    },
    clock,
    random: options.random ?? (() => 0.5),
    onCall: (call) => events.push(call),
  })
  t.after(() => Promise.all([router.close(), a.close(), b.close()]))
  return { router, clock, events, a, b }
}

export function question(model: string, rest: Partial<Question> = {}): Question {
  const prompt = { messages: [{ role: 'user', content: 'Hi' }], form: { kind: 'text' } } as const
  return { model, allowed: () => true, inputTokens: 10, prompt, ...rest }
}

/** Lets each pause of the router pass; returns how long they were. */
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
