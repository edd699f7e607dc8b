/**
 * Tests with conformance/batch.mjs that a batch continues after its node was killed, and that each of its lines has one result.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { freePort } from '../postgres/cluster.ts'
import { freshRealDatabase } from '../postgres/database.ts'
import { LONG } from '../support/long-form.ts'
import { peakOf, residentMiB } from '../support/memory-of.ts'
import { serveHttp } from './http-server.ts'
import { CLONE, type Installation, installation } from './server-process.ts'

const LINES = LONG ? 50_000 : 1000
/** In the long form, the file has nearly 200 MB, which is the limit. */
const LINE_BYTES = LONG ? 3800 : 0
const KILLS = LONG ? 10 : 2
/** In the short form, an answer takes so long that the batch does not end while a node restarts. */
const ANSWER_MS = LONG ? 20 : 400
const env = { OPENAI_MAX_CONCURRENCY: LONG ? '256' : '32' }
/** A server may take this much memory in addition to an idle one. */
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
  const nodes = await Promise.all(Array.from({ length: count }, () => watchedNode(t, place)))
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
  const moreMiB = Math.max(...nodes.map((node) => node.moreMiB()))
  t.diagnostic(`at most ${Math.round(moreMiB)} MiB more than an idle server`)
  assert.ok(moreMiB <= MAX_MIB, `${moreMiB} MiB`)
}

async function watchedNode(t: TestContext, place: Installation) {
  let server = await place.start({ env })
  const { url } = server
  const idleMiB = residentMiB(server.program.pid)
  const peaksMiB: (() => number)[] = []
  const watch = () => {
    const { peakMiB, end } = peakOf(server.program.pid)
    t.after(end)
    peaksMiB.push(peakMiB)
  }
  watch()
  return {
    url,
    async restart() {
      await server.crash()
      server = await place.start({ env: { ...env, PORT: new URL(url).port } })
      watch()
    },
    moreMiB: () => Math.max(...peaksMiB.map((peakMiB) => peakMiB())) - idleMiB,
  }
}
