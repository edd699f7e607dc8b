/**
 * Measures one round of pending requests: opens many on one side, measures its memory, then releases them and times each
 * answer.
 */
import { reserveOf } from '../../src/sharing/fair-slots.ts'
import { type Child, startScript } from '../harness/child.ts'
import { assertEachSettledOnce, assertThat } from '../harness/invariants.ts'
import { type Rig, runLoad } from '../harness/load-run.ts'
import { Parley } from '../harness/parley.ts'
import { jobBody } from '../load/bodies.ts'
import type { HeldResult, Target } from '../load/generator.ts'
import { type Latencies, summarise } from '../load/percentiles.ts'

export type HoldingSide = 'parley' | 'wide parley' | 'holder' | 'proxy'

export interface HeldRun {
  /** Both are the growth per pending request. `heapBytes` is the JavaScript heap and its buffers after a garbage collection. */
  readonly rssBytes: number
  readonly heapBytes: number
  readonly wake: Latencies
  readonly allDoneMs: number
}

interface Held {
  readonly child: Child
  readonly target: Target
  readonly beginToHold: () => Promise<unknown>
  readonly held: () => Promise<number>
  readonly release: () => void
  readonly finish: () => Promise<void>
}

const BYTES = 1024
const DEFAULT_CONCURRENCY = 256
/** Parley reserves a sixteenth of the slots for other accounts, so this many slots per job are enough. */
const WITH_RESERVE = 1.1
const RELEASE_MS = 800
const HELD_WITHIN_MS = 60_000
const SETTLE_MS = 1000
const COLLECTOR = new URL('../harness/collect-garbage-on-signal.ts', import.meta.url)
const NODE_OPTIONS = ['--expose-gc', '--import', COLLECTOR.href]

export async function heldRun(
  name: HoldingSide,
  rig: Rig,
  held: number,
  openFiles: number,
): Promise<HeldRun> {
  const side = await start(name, rig, held, openFiles)
  await warmUp(rig, side)
  await side.beginToHold()
  const before = await memoryOf(side.child)
  const result = rig.generator.hear<HeldResult>('held result')
  rig.generator.tell({ kind: 'hold', target: side.target, connections: held })
  await waitForCount(side.held, held)
  const plateau = await memoryOf(side.child)
  const releasedAtMs = monotonicMs()
  side.release()
  const { answeredAtMs, failures } = await result
  assertThat(failures.length === 0, `wrong answers, such as: ${failures[0]}`)
  assertThat(answeredAtMs.length === held, `${answeredAtMs.length} of ${held} held were answered`)
  const { times } = await rig.model.ask<{ times: [string, number][] }>(
    { kind: 'answer times?' },
    'answer times',
  )
  await side.finish()
  const gaveAtMs = new Map(times)
  const wakes = answeredAtMs.map(
    ([correlationId, atMs]) => atMs - (gaveAtMs.get(correlationId) ?? releasedAtMs),
  )
  return {
    rssBytes: (plateau.rss - before.rss) / held,
    heapBytes: (plateau.heap - before.heap) / held,
    wake: summarise(wakes),
    allDoneMs: Math.max(...answeredAtMs.map(([, atMs]) => atMs)) - releasedAtMs,
  }
}

function start(name: HoldingSide, rig: Rig, held: number, openFiles: number): Promise<Held> {
  if (name === 'holder') return startHolder(openFiles)
  if (name === 'proxy') return startProxy(rig, held, openFiles)
  return startParley(rig, held, openFiles, name === 'wide parley')
}

async function startParley(rig: Rig, held: number, openFiles: number, wide: boolean): Promise<Held> {
  const { modelPort } = rig
  // One account cannot use the reserved slots.
  const concurrency = wide ? Math.ceil(held * WITH_RESERVE) : DEFAULT_CONCURRENCY
  const running = Math.min(held, concurrency - reserveOf(concurrency))
  const beginToHold = () => rig.model.ask({ kind: 'hold', timed: true }, 'holding')
  const parley = await Parley.start({ modelPort, concurrency, openFiles, nodeOptions: NODE_OPTIONS })
  return {
    child: parley.child,
    target: parley.single(jobBody(BYTES)),
    beginToHold,
    held: async () => {
      const [waiting, asked] = await Promise.all([parley.metric('parley_waiters'), heldByModel(rig)])
      return asked < running ? asked : waiting
    },
    release: () => rig.model.tell({ kind: 'release', overMs: wide ? RELEASE_MS : 0 }),
    finish: async () => {
      await parley.child.stop()
      assertEachSettledOnce(parley.dataFolder.database, [], null)
      parley.dataFolder.remove()
    },
  }
}

async function startHolder(openFiles: number): Promise<Held> {
  const script = new URL('../peers/bare-held-requests.ts', import.meta.url)
  const { child, ready } = await startScript<{ port: number }>(script, {
    name: 'bare holder',
    openFiles,
    nodeOptions: NODE_OPTIONS,
  })
  return {
    child,
    target: bareTarget(ready.port, '"status":"completed"'),
    beginToHold: () => child.ask({ kind: 'hold' }, 'holding'),
    held: async () => (await child.ask<{ count: number }>({ kind: 'held?' }, 'held')).count,
    release: () => child.tell({ kind: 'release' }),
    finish: () => child.stop(),
  }
}

async function startProxy(rig: Rig, connections: number, openFiles: number): Promise<Held> {
  const script = new URL('../peers/bare-proxy.ts', import.meta.url)
  const { child, ready } = await startScript<{ port: number }>(script, {
    name: 'bare proxy',
    settings: { modelPort: rig.modelPort, connections },
    openFiles,
    nodeOptions: NODE_OPTIONS,
  })
  return {
    child,
    target: bareTarget(ready.port, '"finish_reason":"stop"'),
    beginToHold: () => rig.model.ask({ kind: 'hold', timed: true }, 'holding'),
    held: () => heldByModel(rig),
    release: () => rig.model.tell({ kind: 'release', overMs: RELEASE_MS }),
    finish: () => child.stop(),
  }
}

async function heldByModel({ model }: Rig): Promise<number> {
  return (await model.ask<{ count: number }>({ kind: 'held?' }, 'held')).count
}

function bareTarget(port: number, text: string): Target {
  return {
    port,
    host: '127.0.0.1',
    path: '/v1/chat/completions',
    headers: { 'content-type': 'application/json' },
    body: jobBody(BYTES),
    expect: { status: 200, text, correlationId: true },
  }
}

/** Without a warm-up, compiled code and filled caches would count as memory of pending requests. */
async function warmUp(rig: Rig, { target, child }: Held): Promise<void> {
  const order = { kind: 'run', target, connections: 64, warmUpMs: 500, measureMs: 1000 } as const
  await runLoad(rig, order, [child])
}

async function memoryOf(child: Child): Promise<{ rss: number; heap: number }> {
  const seen = child.output.length
  child.signal('SIGUSR2')
  const [, json = '{}'] = await child.printed(new RegExp(`^[^]{${seen}}[^]*?memory (\\{.*\\})`))
  const { heapUsed = 0, external = 0 } = JSON.parse(json) as { heapUsed?: number; external?: number }
  return { rss: child.rssBytes(), heap: heapUsed + external }
}

async function waitForCount(held: () => Promise<number>, count: number): Promise<void> {
  const untilMs = performance.now() + HELD_WITHIN_MS
  for (let now = await held(); now < count; now = await held()) {
    assertThat(performance.now() < untilMs, `only ${now} of ${count} requests are held`)
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  // Data on its way to the disk takes memory for a moment, and must not count.
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS))
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
