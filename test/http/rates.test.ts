/** Tests rates of upstreams: jobs wait until the provider's limits per minute have room for them, instead of getting 429. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Clock, systemClock, wait } from '../../src/clock.ts'
import { FakeClock } from '../fake-clock.ts'
import {
  chatCompletion,
  isModelList,
  type ModelServerForTests,
  type Reply,
  type Script,
  startModelServer,
} from '../model-server.ts'
import { type Enforced, ProviderRate } from '../model-servers/provider-rate.ts'
import { onAnyStore, onEachStore, storeName } from '../on-each-store.ts'
import { type Lifetime, type Parley, startParley, temporaryFolder } from '../parley.ts'
import { LONG } from '../support/long-form.ts'
import { createBatches, metric, withContent } from '../support/outage.ts'
import { adminOf } from './admin/admin.ts'
import { type Caller, callerOf, MESSAGES } from './caller.ts'
import { granted, timedOut } from './expect.ts'
import { UNLIMITED_READS } from './stage.ts'

const MINUTE_MS = 60_000
const STEP_MS = 1000
const LONG_STEP_MS = 5000
/**
 * After a step, `pass` checks at most this often whether anything is still on its way. A job between two tries also looks as if
 * it were on its way, so the checks need a maximum.
 */
const MOST_ROUND_TRIPS = 50
const DRAIN_MS = 20_000
const MINUTES = LONG ? 10 : 3
const CALL_MS = 1_500
const LIMITS = { requests: 100, tokens: 60_000 }

interface Scene {
  readonly clock: FakeClock
  readonly answering: () => number
  /** Counts the reads and writes of shared rates that the database has not answered. */
  readonly exchanging: () => number
  readonly models: ModelServerForTests
  readonly provider: ProviderRate
  readonly nodes: readonly Parley[]
  readonly parley: Parley
  readonly caller: Caller
  readonly create: (tokens: readonly number[], over?: object) => Promise<string[]>
}

/** A message begins with the number of tokens that the provider counts for it. */
function rated(
  provider: ProviderRate,
  clock: Clock,
  headers: (nowMs: number) => Record<string, string>,
): { readonly script: Script; readonly answering: () => number } {
  let answering = 0
  const answer: Reply = (request, response) => {
    answering += 1
    response.on('close', () => (answering -= 1))
    const tokens = Number(/\d+/.exec(String(request.body.messages.at(-1)?.content))?.[0])
    const isAccepted = provider.take(tokens, clock.steadyMs())
    for (const [name, value] of Object.entries(headers(clock.steadyMs()))) response.setHeader(name, value)
    response.setHeader('content-type', 'application/json')
    if (!isAccepted) {
      response.writeHead(429).end('{"error":{"message":"Rate limit reached.","code":"rate_limit_exceeded"}}')
      return
    }
    const completion = chatCompletion(request.body, { content: `${tokens}` })
    const usage = { prompt_tokens: 50, completion_tokens: tokens - 50, total_tokens: tokens }
    clock.after(CALL_MS, () => response.end(JSON.stringify({ ...completion, usage })))
  }
  return { script: (request) => (isModelList(request) ? undefined : answer), answering: () => answering }
}

interface Options {
  readonly kind?: Enforced
  readonly nodes?: number
  readonly isReal?: boolean
  readonly upstream?: Readonly<Record<string, unknown>>
  readonly otherUpstream?: Readonly<Record<string, unknown>>
  readonly settings?: Readonly<Record<string, unknown>>
  readonly limits?: typeof LIMITS
  readonly headers?: (provider: ProviderRate, nowMs: number) => Record<string, string>
}

const RATE = { requests_per_minute: LIMITS.requests, tokens_per_minute: LIMITS.tokens }

async function start(t: Lifetime, options: Options = {}): Promise<Scene> {
  const clock = new FakeClock()
  const time = options.isReal ? systemClock : clock
  const provider = new ProviderRate(options.kind ?? 'sliding', options.limits ?? LIMITS, 17_000)
  const models = await startModelServer()
  const { script, answering } = rated(provider, time, (nowMs) => options.headers?.(provider, nowMs) ?? {})
  models.script = script
  t.after(() => models.close())
  const folder = await temporaryFolder(t)
  const common = { base_url: models.baseUrl, api_key_env: null }
  const upstreams = {
    openai: { ...common, ...(options.upstream ?? RATE) },
    ...(options.otherUpstream && { other: { ...common, ...options.otherUpstream } }),
  }
  const settings = { tiers: UNLIMITED_READS, upstreams, ...options.settings }
  const nodes: Parley[] = []
  let exchanging = 0
  const counted = <Args extends unknown[], Result>(run: (...args: Args) => Promise<Result>) => {
    return async (...args: Args) => {
      exchanging += 1
      return await run(...args).finally(() => (exchanging -= 1))
    }
  }
  for (let n = 0; n < (options.nodes ?? 1); n++) {
    // This hook runs before the node stops, and ends the time that the node waits for running jobs.
    t.after(() => void clock.timerSet((ms) => ms === DRAIN_MS).then(() => clock.advance(DRAIN_MS)))
    const node = await startParley(t, { upstream: models.baseUrl, clock: time, folder, settings })
    const { store } = node
    Object.assign(store, {
      readRate: counted(store.readRate.bind(store)),
      writeRate: counted(store.writeRate.bind(store)),
    })
    nodes.push(node)
  }
  const [parley] = nodes
  assert.ok(parley)
  const caller = await callerOf(parley)
  const create = (tokens: readonly number[], over: object = {}) =>
    createBatches({ parley }, caller.key, jobsOf(tokens, over))
  return { clock, answering, exchanging: () => exchanging, models, provider, nodes, parley, caller, create }
}

/**
 * After each step of the clock, waits until each running job either waits for the rate or has its request at the model server.
 */
async function pass(t: { signal: AbortSignal }, scene: Scene, ms: number, stepMs = STEP_MS): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) {
    t.signal.throwIfAborted()
    scene.clock.advance(stepMs)
    for (let n = 0; n < 3; n++) await Promise.all(scene.nodes.map((node) => node.get('/readyz')))
    for (let n = 0; n < MOST_ROUND_TRIPS && (await isInTransit(scene)); n++) t.signal.throwIfAborted()
  }
}

async function isInTransit({ nodes, answering, exchanging }: Scene): Promise<boolean> {
  const sending = await Promise.all(
    nodes.map(async (node) => {
      const { text } = await node.get('/metrics')
      const sum = (name: RegExp) =>
        [...text.matchAll(name)].reduce((total, [, value]) => total + Number(value), 0)
      return sum(/^parley_jobs_running (\d+)/gm) - sum(/^parley_upstream_rate_waiting\S* (\d+)/gm)
    }),
  )
  return exchanging() > 0 || sending.reduce((total, one) => total + one, 0) > answering()
}

/** The sizes are from 200 to 2,000 tokens. Their order looks random but is the same in every run. */
const sizes = (count: number) => Array.from({ length: count }, (_, n) => 200 + ((n * 7919) % 1801))
let made = 0
const jobsOf = (tokens: readonly number[], over = {}) =>
  tokens.map((one) => withContent(`${one} tokens, ${made++}`, over))

const callsOf = ({ models }: Scene, content: RegExp) =>
  models.completions().filter(({ body }) => content.test(String(body.messages.at(-1)?.content))).length

const shown = async (caller: Caller, id: string | undefined) => granted(await caller.read(id), 200)
const statusOf = async (caller: Caller, id: string | undefined) => (await shown(caller, id)).status

const TWO_UPSTREAMS = {
  'gpt-5-mini': { targets: [{ upstream: 'openai', model: 'm' }] },
  free: { targets: [{ upstream: 'other', model: 'm' }] },
}

const unavailable = (log: Parley['log']) => log.filter(({ message }) => /is unavailable/.test(message))

onEachStore(() => {
  const counts = LONG ? [1, 3] : [3]
  for (const count of storeName() === 'Postgres' ? counts : [1]) {
    test(`${count} nodes use the minutes of a provider without a 429, and two accounts alike`, async (t) => {
      const scene = await start(t, { kind: 'sliding', nodes: count })
      const { parley, provider } = scene
      for (const account of ['acme', 'other']) {
        const key = await parley.key('user_max', account)
        // Parley keeps the limits exactly only if its estimates are right. Learned estimates are sometimes too low for a large
        // answer.
        const bodies = sizes(33 * MINUTES).map((size) =>
          withContent(`${size} tokens of ${account}, ${made++}`, { options: { max_tokens: size } }),
        )
        await createBatches(scene, key, bodies)
      }
      await pass(t, scene, MINUTE_MS)
      const first = provider.accepted.tokens
      const before = [callsOf(scene, /acme/), callsOf(scene, /other/)] as const
      await pass(t, scene, (MINUTES - 1) * MINUTE_MS)
      assert.ok(
        provider.rejectedAtMs.every((ms) => ms <= MINUTE_MS),
        String(provider.rejectedAtMs),
      )
      const used = (provider.accepted.tokens - first) / ((MINUTES - 1) * LIMITS.tokens)
      assert.ok(used >= 0.95 && used <= 1.02, String(used))
      const [acme, other] = [callsOf(scene, /acme/) - before[0], callsOf(scene, /other/) - before[1]]
      // An account may be ahead by one call on each node at the start and at the end of these minutes. In the ten minutes of
      // the long form, this hardly counts.
      const most = 0.1 * Math.max(acme, other) + (LONG ? 0 : 2 * count)
      assert.ok(Math.abs(acme - other) <= most, `${acme} and ${other}`)
      assert.equal(unavailable(parley.log).length, 0)
      // All jobs beyond these must stay queued.
      assert.ok((await metric(parley, 'parley_jobs_running')) <= 24)
      assert.ok((await metric(parley, 'parley_upstream_rate_waiting{upstream="openai"}')) > 0)
    })
  }

  test('complete_within and a cancellation end the wait, and the caller of a single create gets 202', async (t) => {
    const scene = await start(t, { upstream: { requests_per_minute: 1 } })
    const { caller, create } = scene
    const [done] = await create([100])
    const [late] = await create([100], { complete_within: 20 })
    const [cancelled] = await create([100])
    const single = caller.post(MESSAGES, { ...jobsOf([100])[0], timeout: 30 })
    await pass(t, scene, 5_000)
    granted(await caller.cancel(cancelled), 200)
    await pass(t, scene, 26_000)
    timedOut(await single)
    assert.equal(await statusOf(caller, done), 'completed')
    assert.equal((await shown(caller, late)).error.code, 'deadline_exceeded')
    assert.equal((await shown(caller, cancelled)).error.code, 'cancelled')
    await pass(t, scene, MINUTE_MS, LONG_STEP_MS)
    assert.equal(scene.models.completions().length, 2)
  })

  test('two real minutes on one node, or on three', { skip: !LONG }, async (t) => {
    const scene = await start(t, { isReal: true, nodes: storeName() === 'Postgres' ? 3 : 1 })
    const { provider } = scene
    const startMs = systemClock.steadyMs()
    await scene.create(sizes(180))
    await wait(systemClock, 2 * MINUTE_MS)
    // Calls are sent in bursts, so a minute's use may differ by a tenth from the limit.
    const used = provider.accepted.tokens / (2 * LIMITS.tokens)
    t.diagnostic(`used ${used} of two minutes`)
    assert.ok(used >= 0.95 && used <= 1.1, String(used))
    assert.ok(
      provider.rejectedAtMs.every((ms) => ms < startMs + MINUTE_MS),
      String(provider.rejectedAtMs),
    )
  })

  test('a server that stops leaves jobs that wait for a rate to others at once, with what they have used', async (t) => {
    const scene = await start(t, {
      upstream: { requests_per_minute: 1 },
      settings: { jobs: { patience_seconds: 0 } },
    })
    const { parley, caller, create, clock, models } = scene
    // The answer is not an object, so the job makes a second call to repair it, which must wait for the rate, too.
    const json = { response_format: { format: 'json', schema: { type: 'object' } } }
    const ids = [...(await create([100], json)), ...(await create([100, 100]))]
    await pass(t, scene, 30_000)
    assert.equal(await metric(parley, 'parley_upstream_rate_waiting{upstream="openai"}'), 3)
    const atMs = clock.steadyMs()
    await parley.stop()
    assert.equal(clock.steadyMs(), atMs)
    const next = await startParley(t, {
      upstream: models.baseUrl,
      clock,
      folder: parley.folder,
      settings: {
        tiers: UNLIMITED_READS,
        upstreams: { openai: { base_url: models.baseUrl, api_key_env: null } },
      },
    })
    await pass(t, { ...scene, nodes: [next], parley: next }, 5_000)
    const [repaired, ...others] = await Promise.all(ids.map((id) => shown(caller.at(next), id)))
    assert.deepEqual([repaired.status, repaired.error.code], ['failed', 'validation_error'])
    for (const { status } of others) assert.equal(status, 'completed')
    // The three jobs made one call each, and one of them a repair. No call was repeated.
    assert.equal(models.completions().length, 4)
  })

  if (storeName() === 'Postgres') {
    test('while an older node is alive, rates have no effect', async (t) => {
      const { addEarlierNode } = await import('./earlier-node.ts')
      const scene = await start(t, { upstream: { requests_per_minute: 1 } })
      const { parley, create, models, provider } = scene
      await addEarlierNode(t, parley, 'prices')
      while (parley.store.isKnownToAll('rates')) await pass(t, scene, 1000)
      await create([100, 100, 100])
      await pass(t, scene, 5_000)
      assert.equal(models.completions().length, 3)
      const lines = parley.log.filter(({ message }) => /tokens_per_minute have no effect/.test(message))
      assert.equal(lines.length, 1)
      // Parley must handle a 429 from an upstream with a rate like any other 429.
      assert.ok(provider.take(LIMITS.tokens - 500, scene.clock.steadyMs()))
      await create([1000])
      await pass(t, scene, 10_000)
      const times = provider.rejectedAtMs
      assert.ok(times.length > 1)
      assert.equal(new Set(times).size, times.length, String(times))
      assert.equal(unavailable(parley.log).length, 1)
    })
  }
})

/** One node decides this by itself, so one store is enough. */
onAnyStore(() => {
  test('jobs wait longer than patience and run timeout allow; others go on meanwhile', async (t) => {
    const scene = await start(t, {
      upstream: { requests_per_minute: 2 },
      settings: { jobs: { patience_seconds: 5, run_timeout_seconds: 5 }, models: TWO_UPSTREAMS },
      otherUpstream: {},
    })
    const { parley, caller, create } = scene
    const ids = await create([100, 100, 100, 100, 100])
    await pass(t, scene, 5_000)
    for (const id of await create([100, 100, 100], { model: 'free' })) {
      while ((await statusOf(caller, id)) !== 'completed') await pass(t, scene, STEP_MS)
    }
    assert.ok(scene.clock.steadyMs() < MINUTE_MS)
    const statuses = async () => Promise.all(ids.map((id) => statusOf(caller, id)))
    assert.equal((await statuses()).filter((status) => status === 'completed').length, 1)
    await pass(t, scene, 3 * MINUTE_MS)
    assert.deepEqual(new Set(await statuses()), new Set(['completed']))
    assert.equal(unavailable(parley.log).length, 0)
  })

  test('after a 429, a job waits as long as the server asks for, without using its patience', async (t) => {
    const scene = await start(t, {
      limits: { requests: 1, tokens: 60_000 },
      settings: { jobs: { patience_seconds: 5 } },
      headers: () => ({ 'retry-after': '30' }),
    })
    const { parley, caller, create, provider } = scene
    provider.take(100, 0)
    const [id] = await create([100])
    await pass(t, scene, 25_000)
    assert.deepEqual([provider.rejectedAtMs.length, scene.models.completions().length], [1, 1])
    await pass(t, scene, 50_000)
    assert.equal(await statusOf(caller, id), 'completed')
    assert.equal(provider.rejectedAtMs.length, 2)
    assert.equal(unavailable(parley.log).length, 0)
  })

  test('what others used of the same key counts', async (t) => {
    const scene = await start(t, {
      headers: (provider, nowMs) => ({
        'x-ratelimit-limit-tokens': String(provider.limits.tokens),
        'x-ratelimit-remaining-tokens': String(Math.max(0, provider.left(nowMs).tokens)),
        'x-ratelimit-reset-tokens': '1m0s',
      }),
    })
    const { provider, create } = scene
    await create([1000])
    await pass(t, scene, 3_000)
    // Another program uses nearly all tokens that are left of the minute.
    assert.ok(provider.take(56_000, scene.clock.steadyMs()))
    await create(Array(21).fill(1000))
    await pass(t, scene, 50_000)
    // Only calls that were on their way before the server reported how little is left may be rejected.
    assert.ok(provider.rejectedAtMs.length <= 10, String(provider.rejectedAtMs))
    await pass(t, scene, 2 * MINUTE_MS, LONG_STEP_MS)
    assert.equal(callsOf(scene, /1000/) - provider.rejectedAtMs.length, 22)
  })

  test('a job that is larger than a minute runs alone, and fails with the reason if the server rejects it', async (t) => {
    const upstream = { tokens_per_minute: 2000 }
    const limits = { requests: 100, tokens: 2000 }
    const scene = await start(t, { upstream, limits })
    const { caller, create } = scene
    const large = { options: { max_tokens: 5000 } }
    const [first] = await create([500])
    const [second, third] = [...(await create([1900], large)), ...(await create([2500], large))]
    await pass(t, scene, 30_000)
    assert.equal(await statusOf(caller, first), 'completed')
    assert.equal(scene.models.completions().length, 1)
    await pass(t, scene, 4 * MINUTE_MS, LONG_STEP_MS)
    assert.equal(await statusOf(caller, second), 'completed')
    const { error } = await shown(caller, third)
    assert.equal(error.code, 'model_error')
    const reason =
      /needs about 50\d\d tokens, and the rate .* is 2000 tokens per minute\. It was sent alone, and the server rejected it: Rate limit reached\.$/
    assert.match(error.upstream_message, reason)
    assert.equal(scene.models.completions().length, 3)
  })

  test('a target has a rate of its own, which its other names share', async (t) => {
    const slow = { upstream: 'openai', model: 'm', requests_per_minute: 1 }
    const scene = await start(t, {
      upstream: {},
      settings: {
        models: {
          slow: { targets: [slow] },
          alias: { targets: [{ upstream: 'openai', model: 'm' }] },
          fast: { targets: [{ upstream: 'openai', model: 'n' }] },
        },
      },
    })
    for (const model of ['slow', 'alias', 'fast']) await scene.create([100, 100], { model })
    await pass(t, scene, 30_000)
    const called = scene.models.completions().map(({ body }) => body.model)
    assert.deepEqual(called.sort(), ['m', 'n', 'n'])
  })

  test('jobs that wait for a rate leave slots to other routes of the same account', async (t) => {
    const scene = await start(t, {
      upstream: { requests_per_minute: 1 },
      settings: { jobs: { concurrency: 4 }, models: TWO_UPSTREAMS },
      otherUpstream: {},
    })
    const { parley, caller, create } = scene
    await create(Array(90).fill(100))
    await pass(t, scene, 5_000)
    assert.ok((await metric(parley, 'parley_upstream_rate_waiting{upstream="openai"}')) >= 1)
    const { upstreams } = await (await adminOf(parley)).read('/overview')
    assert.ok(upstreams.find(({ name }: { name: string }) => name === 'openai').waiting >= 1)
    const ids = await create([100, 100, 100], { model: 'free' })
    await pass(t, scene, 15_000)
    for (const id of ids) assert.equal(await statusOf(caller, id), 'completed')
  })
})
