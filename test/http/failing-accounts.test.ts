/**
 * Tests jobs of one account that fail although the model server works: other accounts are answered as usual, and each job ends
 * with its own cause.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Reply, reply } from '../model-server.ts'
import { onEachStore, storeName } from '../on-each-store.ts'
import { LONG } from '../support/long-form.ts'
import { metric, readJobs, STEP_MS } from '../support/outage.ts'
import { callerOf, says } from './caller.ts'
import { completed, failed } from './expect.ts'
import { startOutageScene } from './outage-scene.ts'

const CALL_TIMEOUT_MS = 2000
const PATIENCE_MS = 60_000
const ATTACKS = 300
/** After the end of its patience, a job fails within five seconds, but a last call may still run. */
const SWEEP_MS = 10_000
const CONCURRENCY = 256

onEachStore(() => {
  const attacks: readonly (readonly [name: string, answer: Reply, cause: RegExp])[] = [
    ['403', reply.status(403), /403/],
    ['500', reply.status(500), /500/],
    ['a timeout', reply.stall(), /within 2 s/],
    ['a reset', reply.reset(), /connection/],
    ['503 with Retry-After', reply.status(503, { headers: { 'retry-after': '3600' } }), /503/],
  ]
  // The causes differ in the router. The last one also keeps jobs in the store until their patience ends.
  for (const [name, answer, cause] of storeName() === 'SQLite' || LONG ? attacks : attacks.slice(-1)) {
    test(`${ATTACKS} jobs of one account get ${name}, and another account is answered as usual`, async (t) => {
      const upstreams = { openai: { api_key_env: null, call_timeout_seconds: CALL_TIMEOUT_MS / 1000 } }
      const jobs = { patience_seconds: PATIENCE_MS / 1000 }
      const scene = await startOutageScene(t, { settings: { upstreams, jobs } })
      const { parley, models, clock } = scene
      const bad = await callerOf(parley, 'user_max', 'bad')
      /** Creates jobs one after the other; returns the milliseconds of the slowest. */
      const slowest = async (content: string, count: number) => {
        let slowestMs = 0
        for (let n = 0; n < count; n++) {
          const { answer: got, ms } = await scene.createAndWait(says(`${content} ${n}`))
          completed(got)
          slowestMs = Math.max(slowestMs, ms)
          clock.advance(2 * STEP_MS)
        }
        return slowestMs
      }
      const quietMs = await slowest('quiet', 5)
      models.script = ({ text }) => (text.includes('"bad ') ? answer : undefined)
      const ids = await scene.createJobs(
        Array.from({ length: ATTACKS }, (_, n) => says(`bad ${n}`)),
        bad,
      )
      const startMs = clock.nowMs()
      const slowestMs = await slowest('good', 30)
      // Times are multiples of the clock's step.
      const mostMs = 1.5 * Math.max(quietMs, STEP_MS) + CALL_TIMEOUT_MS
      t.diagnostic(`the slowest answer came after ${slowestMs} ms, without these jobs after ${quietMs} ms`)
      assert.ok(slowestMs <= mostMs, `${slowestMs} ms instead of ${mostMs}`)
      const limit = await metric(parley, 'parley_upstream_calls{upstream="openai",state="places"}')
      assert.ok(limit >= 0.8 * CONCURRENCY, `the limit fell to ${limit}`)
      await scene.ended(ids, 1000, bad)
      const endedMs = clock.nowMs() - startMs
      assert.ok(endedMs <= PATIENCE_MS + SWEEP_MS, `the last job ended after ${endedMs} ms`)
      failed(await bad.read(ids[0]))
      for (const { status, error } of await readJobs(parley, bad.key, ids)) {
        assert.equal(status, 'failed')
        assert.match(`${error.message} ${error.upstream_status} ${error.upstream_message}`, cause)
      }
    })
  }
})
