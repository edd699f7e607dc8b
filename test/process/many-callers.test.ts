/** Tests many jobs from 200 concurrent callers, in single creates and batches: all of them finish soon. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { LONG } from '../support/long-form.ts'
import { idsOf } from './caller.ts'
import { installation } from './server-process.ts'

/** Each job costs about a millisecond of CPU time, so the short form has a fifth of the jobs. */
const JOBS = LONG ? 10_000 : 2_000
const CALLERS = 200
const BATCH = 2
const WITHIN_MS = 20_000

test(`${JOBS} jobs created by ${CALLERS} concurrent callers all end`, async (t) => {
  const place = await installation(t)
  const server = await place.start({ env: { LOG_LEVEL: 'warn' } })
  const caller = server.caller(await server.firstKey())
  const startedAt = Date.now()
  const ids = new Set<string>()
  const work = async (name: string) => {
    const share = JOBS / CALLERS
    const singles = share * 0.8
    const batched: string[] = []
    for (let at = 0; at < singles; at++) {
      const answer = await caller.single(`${name}, job ${at}`)
      assert.equal(answer.body.data?.status, 'completed', answer.text)
      for (const id of idsOf(answer)) ids.add(id)
    }
    for (let at = singles; at < share; at += BATCH) {
      const answer = await caller.batch(Array.from({ length: BATCH }, (_, n) => `${name}, job ${at + n}`))
      assert.equal(answer.status, 202, answer.text)
      batched.push(...idsOf(answer))
    }
    for (const id of batched) {
      ids.add(id)
      assert.equal((await caller.ended(id)).body.data?.status, 'completed')
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, (_, index) => work(`caller ${index}`)))
  const tookMs = Date.now() - startedAt
  assert.equal(ids.size, JOBS)
  assert.ok(tookMs <= WITHIN_MS, `it took ${tookMs} ms`)
  t.diagnostic(`${JOBS} jobs in ${tookMs} ms`)
})
