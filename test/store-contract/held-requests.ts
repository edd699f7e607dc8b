/** What every store guarantees about requests that are held until their job has ended. */
import assert from 'node:assert/strict'
import { MAX_EQUAL } from '../../src/store/held-request-store.ts'
import { acceptance, newJob, now, type On } from './fixtures.ts'

const HASH = 'a'.repeat(32)
const PREFIX = `held ${HASH} `

export function heldRequestTests(on: On): void {
  on(
    'finds the held requests of an account by the start of their keys, until they are forgotten',
    async (store) => {
      const [mine, second, other, foreign] = [newJob(), newJob(), newJob(), newJob({ account: 'other' })]
      const untilMs = now.ms + 1000
      const hold = (job: typeof mine, hash = HASH) => {
        const idempotency = { key: `held ${hash} ${job.id}`, fingerprint: 'first', untilMs }
        return store.accept(acceptance([job], { idempotency }))
      }
      await Promise.all([hold(mine), hold(second), hold(other, 'b'.repeat(32)), hold(foreign)])
      const found = async (atMs = now.ms) =>
        (await store.heldRequests(['acme'], [PREFIX], atMs)).map(({ jobId }) => jobId).sort()
      assert.deepEqual(await found(), [mine.id, second.id])
      assert.deepEqual(await found(untilMs), [])
      const both = await store.heldRequests(
        ['other', 'acme', 'acme'],
        [PREFIX, `held ${'b'.repeat(32)} `, 'held x '],
        now.ms,
      )
      assert.deepEqual(both.map(({ jobId }) => jobId).sort(), [other.id, foreign.id])
      const keys = [`${PREFIX}${mine.id}`, `${PREFIX}${foreign.id}`]
      await store.forgetHeldRequests(['other', 'acme'], keys)
      assert.deepEqual(await found(), [mine.id, second.id])
      await store.forgetHeldRequests(['acme', 'other'], keys)
      assert.deepEqual(await found(), [second.id])
      assert.deepEqual(await store.heldRequests(['other'], [PREFIX], now.ms), [])
    },
  )

  on('of many equal requests it finds those without callers, and a limited number', async (store) => {
    const jobs = Array.from({ length: MAX_EQUAL + 20 }, () => newJob())
    const untilMs = now.ms + 1000
    const states = jobs.map((_, at) => `{"callers":[${at > MAX_EQUAL ? '' : '"node-a"'}]}`)
    for (const [at, job] of jobs.entries()) {
      const idempotency = { key: `${PREFIX}${job.id}`, fingerprint: states[at] ?? '', untilMs }
      await store.accept(acceptance([job], { idempotency }))
    }
    const found = await store.heldRequests(['acme'], [PREFIX], now.ms)
    assert.equal(found.length, MAX_EQUAL)
    assert.deepEqual(
      found.slice(0, 20).map(({ jobId }) => jobId),
      [...jobs.slice(MAX_EQUAL + 1), jobs[0]].map((job) => job?.id),
    )
  })

  on('many equal requests of one account do not hide that of another', async (store) => {
    const many = Array.from({ length: 2 * MAX_EQUAL }, () => newJob())
    const one = newJob({ account: 'other' })
    const hold = (job: typeof one, fingerprint: string) => {
      const idempotency = { key: `${PREFIX}${job.id}`, fingerprint, untilMs: now.ms + 1000 }
      return store.accept(acceptance([job], { idempotency }))
    }
    await Promise.all([
      hold(one, '{"callers":["node-a"]}'),
      ...many.map((job) => hold(job, '{"callers":[]}')),
    ])
    const found = await store.heldRequests(['acme', 'other'], [PREFIX, PREFIX], now.ms)
    assert.equal(found.filter(({ account }) => account === 'acme').length, MAX_EQUAL)
    assert.deepEqual(
      found.filter(({ account }) => account === 'other').map(({ jobId }) => jobId),
      [one.id],
    )
  })

  on('changes the state of a held request only if it is the expected one', async (store) => {
    const job = newJob()
    const key = `${PREFIX}${job.id}`
    const idempotency = { key, fingerprint: 'first', untilMs: now.ms + 1000 }
    await store.accept(acceptance([job], { idempotency }))
    const changes = ['second', 'third'].map((state) => store.changeHeldRequest('acme', key, 'first', state))
    const changed = await Promise.all(changes)
    assert.equal(changed.filter(Boolean).length, 1)
    const state = changed[0] ? 'second' : 'third'
    assert.deepEqual(await store.heldRequests(['acme'], [PREFIX], now.ms), [
      { account: 'acme', key, jobId: job.id, state },
    ])
    assert.equal(await store.changeHeldRequest('other', key, state, 'fourth'), false)
    // As after a connection that broke before the response.
    assert.equal(await store.changeHeldRequest('acme', key, 'first', state), true)
  })
}
