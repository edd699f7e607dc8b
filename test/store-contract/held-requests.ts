/** Tests what every store guarantees about requests that are held until their job has ended. */
import assert from 'node:assert/strict'
import type { Job } from '../../src/job/job.ts'
import { MAX_EQUAL } from '../../src/store/held-request-store.ts'
import type { Store } from '../../src/store/store.ts'
import { ids, jobIds, newJob, now, type On, several } from './fixtures.ts'
import { accept } from './steps.ts'

const HASH = 'a'.repeat(32)
const PREFIX = `held ${HASH} `
const OTHER_PREFIX = `held ${'b'.repeat(32)} `
const HELD_MS = 1000

const hold = (store: Store, job: Job, state = 'first', prefix = PREFIX) => {
  const idempotency = { key: `${prefix}${job.id}`, fingerprint: state, untilMs: now.ms + HELD_MS }
  return accept(store, [job], { idempotency })
}

export function heldRequestTests(on: On): void {
  on(
    'finds the held requests of an account by the start of their keys, until they are forgotten',
    async (store) => {
      const [mine, second, other, foreign] = [newJob(), newJob(), newJob(), newJob({ account: 'other' })]
      const apart = hold(store, other, 'first', OTHER_PREFIX)
      await Promise.all([...[mine, second, foreign].map((job) => hold(store, job)), apart])
      const find = async (accounts: string[], prefixes: string[], atMs = now.ms) =>
        jobIds(await store.heldRequests(accounts, prefixes, atMs)).sort()
      assert.deepEqual(await find(['acme'], [PREFIX]), [mine.id, second.id])
      assert.deepEqual(await find(['acme'], [PREFIX], now.ms + HELD_MS), [])
      const prefixes = [PREFIX, OTHER_PREFIX, 'held x ']
      assert.deepEqual(await find(['other', 'acme', 'acme'], prefixes), [other.id, foreign.id])
      const keys = [`${PREFIX}${mine.id}`, `${PREFIX}${foreign.id}`]
      await store.forgetHeldRequests(['other', 'acme'], keys)
      assert.deepEqual(await find(['acme'], [PREFIX]), [mine.id, second.id])
      await store.forgetHeldRequests(['acme', 'other'], keys)
      assert.deepEqual(await find(['acme'], [PREFIX]), [second.id])
      assert.deepEqual(await find(['other'], [PREFIX]), [])
    },
  )

  on('of many equal requests it finds those without callers, and a limited number', async (store) => {
    const jobs = several(MAX_EQUAL + 20)
    for (const [at, job] of jobs.entries())
      await hold(store, job, `{"callers":[${at > MAX_EQUAL ? '' : '"node-a"'}]}`)
    const found = await store.heldRequests(['acme'], [PREFIX], now.ms)
    assert.equal(found.length, MAX_EQUAL)
    const free = [...jobs.slice(MAX_EQUAL + 1), ...jobs.slice(0, 1)]
    assert.deepEqual(jobIds(found.slice(0, 20)), ids(free))
  })

  on('many equal requests of one account do not hide that of another', async (store) => {
    const one = newJob({ account: 'other' })
    const many = several(2 * MAX_EQUAL).map((job) => hold(store, job, '{"callers":[]}'))
    await Promise.all([hold(store, one, '{"callers":["node-a"]}'), ...many])
    const found = await store.heldRequests(['acme', 'other'], [PREFIX, PREFIX], now.ms)
    assert.equal(found.filter(({ account }) => account === 'acme').length, MAX_EQUAL)
    assert.deepEqual(jobIds(found.filter(({ account }) => account === 'other')), [one.id])
  })

  on('changes the state of a held request only if it is the expected one', async (store) => {
    const [job] = await hold(store, newJob())
    const key = `${PREFIX}${job.id}`
    const change = (expected: string, state: string, account = 'acme') =>
      store.changeHeldRequest(account, key, expected, state)
    const changed = await Promise.all([change('first', 'second'), change('first', 'third')])
    assert.equal(changed.filter(Boolean).length, 1)
    const state = changed[0] ? 'second' : 'third'
    const held = { account: 'acme', key, jobId: job.id, state }
    assert.deepEqual(await store.heldRequests(['acme'], [PREFIX], now.ms), [held])
    assert.equal(await change(state, 'fourth', 'other'), false)
    // A request is repeated like this after a connection that broke before the response.
    assert.equal(await change('first', state), true)
  })
}
