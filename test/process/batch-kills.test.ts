/**
 * Tests with conformance/batch.mjs that a batch continues after its node was killed, and that each of its lines has one result.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { setTimeout as passed } from 'node:timers/promises'
import { freePort } from '../postgres/cluster.ts'
import { freshRealDatabase } from '../postgres/database.ts'
import { LONG } from '../support/long-form.ts'
import { peakOf, residentMiB } from '../support/memory-of.ts'
import { jobOf } from './caller.ts'
import { serveHttp } from './http-server.ts'
import { CLONE, type Installation, installation, type Server } from './server-process.ts'

const LINES = LONG ? 50_000 : 1000
/** In the long form, the file has nearly 200 MB, which is the limit. */
const LINE_BYTES = LONG ? 3800 : 0
const KILLS = LONG ? 10 : 2
/**
 * How long each answer takes, in milliseconds. In the short form, it is so long that the batch does not end while a node
 * restarts.
 */
const ANSWER_MS = LONG ? 20 : 400
const env = { OPENAI_MAX_CONCURRENCY: LONG ? '256' : '32' }
/** How much memory a server may take in addition to an idle one. */
const MAX_MIB = 250
/** The lease is so short that the test can wait for its end. */
const settings = { jobs: { lease_seconds: 3, max_attempts: 1000 } }

for (const [store, nodes] of [
  ['SQLite', 1],
  ['Postgres', 2],
] as const) {
  test(`${KILLS} kills of nodes in turn on ${store} during a batch of ${LINES} lines`, (t) => kills(t, nodes))
}

async function kills(t: TestContext, count: number): Promise<void> {
  const modelPort = await freePort()
  const place = await installation(t, {
    upstream: `http://127.0.0.1:${modelPort}/v1`,
    settings,
    ...(count > 1 && { databaseUrl: await freshRealDatabase(t) }),
  })
  const nodes = await Promise.all(Array.from({ length: count }, () => WatchedNode.start(t, place)))
  const [first] = nodes
  assert.ok(first)
  const restarts = await serveHttp(t, (request, response) => {
    const node = nodes[Number(request.url?.slice(1)) % count]
    void node?.restart().then(() => response.end())
  })
  const program = place.spawn([
    ...[process.execPath, join(CLONE, 'conformance/batch.mjs'), '--base-url', `${first.url}/v1`],
    ...['--key', await place.key('acme'), '--model', 'gpt-5-mini', '--model-port', `${modelPort}`],
    ...['--model-ms', `${ANSWER_MS}`],
    ...['--lines', `${LINES}`, '--line-bytes', `${LINE_BYTES}`, '--kills', `${KILLS}`],
    ...['--restart', `"${process.execPath}" -e "fetch('${restarts}/'+process.env.KILL)"`],
  ])
  const creates = LONG ? watchCreates(place, first) : null
  const { code } = await program.exited
  t.diagnostic(program.stdout.trimEnd().replaceAll('\n', ', '))
  const failing = LINES / 10
  assert.equal(code, 0, program.stdout + program.stderr)
  assert.match(program.stdout, new RegExp(`^${LINES} lines, ${KILLS} kills, .*: completed$`, 'm'))
  assert.match(program.stdout, new RegExp(`^in the output file: ${LINES - failing}$`, 'm'))
  assert.match(program.stdout, new RegExp(`^in the error file: ${failing}$`, 'm'))
  for (const problem of ['lost', 'doubled', 'unknown', 'wrong', 'repeated although answered before']) {
    assert.match(program.stdout, new RegExp(`^${problem}: 0$`, 'm'))
  }
  if (creates) t.diagnostic(await creates.end())
  const moreMiB = Math.max(...nodes.map((node) => node.moreMiB()))
  t.diagnostic(`at most ${Math.round(moreMiB)} MiB more than an idle server`)
  assert.ok(moreMiB <= MAX_MIB, `${moreMiB} MiB`)
}

/** A node that keeps its port when it is killed, with the memory of its processes. */
class WatchedNode {
  readonly #t: TestContext
  readonly #place: Installation
  readonly #idleMiB: number
  readonly #peaksMiB: (() => number)[] = []
  #server: Server

  static async start(t: TestContext, place: Installation): Promise<WatchedNode> {
    return new WatchedNode(t, place, await place.start({ env }))
  }

  constructor(t: TestContext, place: Installation, server: Server) {
    this.#t = t
    this.#place = place
    this.#server = server
    this.#idleMiB = residentMiB(server.program.pid)
    this.#watch()
  }

  get url(): string {
    return this.#server.url
  }

  async restart(): Promise<void> {
    await this.#server.crash()
    this.#server = await this.#place.start({ env: { ...env, PORT: new URL(this.url).port } })
    this.#watch()
  }

  moreMiB(): number {
    return Math.max(...this.#peaksMiB.map((peakMiB) => peakMiB())) - this.#idleMiB
  }

  #watch(): void {
    const { peakMiB, end } = peakOf(this.#server.program.pid)
    this.#t.after(end)
    this.#peaksMiB.push(peakMiB)
  }
}

/** Measures creates of another account, and of the same one, at the same time. Creates that a kill interrupts do not count. */
function watchCreates(place: Installation, node: WatchedNode) {
  let isOver = false
  const watch = async (account: string) => {
    const key = await place.key(account)
    const tookMs: number[] = []
    while (!isOver) {
      const startMs = performance.now()
      const answer = await fetch(`${node.url}/api/v1/messages`, {
        method: 'POST',
        headers: { 'x-api-key': key, 'content-type': 'application/json' },
        body: JSON.stringify(jobOf(`${account} ${startMs}`)),
      }).catch(() => passed(50))
      if (answer?.status === 200) tookMs.push(performance.now() - startMs)
      await answer?.text().catch(() => passed(50))
    }
    tookMs.sort((one, other) => one - other)
    const at = (part: number) => `${Math.round(tookMs[Math.floor(tookMs.length * part)] ?? 0)} ms`
    return `${tookMs.length} creates of ${account}: ${at(0.5)}, 99% within ${at(0.99)}`
  }
  const watching = Promise.all([watch('other'), watch('acme')])
  return {
    end: async () => {
      isOver = true
      return (await watching).join('; ')
    },
  }
}
