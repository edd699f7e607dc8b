/** What every store guarantees about claim: one node per job, in fair order. */
import assert from 'node:assert/strict'
import type { Callback } from '../../src/job/job.ts'
import { acceptance, addAccounts, ids, newJob, now, type On } from './fixtures.ts'

export function claimTests(on: On): void {
  on('returns every field of a job as it was accepted', async (store) => {
    const callback: Callback = {
      url: 'https://example.com/hook',
      headers: { 'x-a': 'ä' },
      payloadJson: '{"big":12345678901234567890,"huge":1e400}',
    }
    const messages = [
      { role: 'developer', content: 'nul \u0000, half \ud800, whole 😀, line\u2028' },
      { role: 'user', content: '' },
    ] as const
    const responseFormat = { format: 'json', schema: { type: 'object', __proto__x: 1 } } as const
    const job = newJob({ callback, messages, responseFormat, cacheTtlMs: 180_501 })
    await store.accept(acceptance([job]))
    const [claimed] = (await store.claim('node-a', 1, now.ms)).jobs
    assert.deepEqual(claimed, { ...job, attempt: 1, crashCount: 0 })
  })

  on('gives each job to one node only', async (store) => {
    const jobs = Array.from({ length: 60 }, () => newJob())
    await store.accept(acceptance(jobs))
    const claims = await Promise.all(
      Array.from({ length: 12 }, (_, index) => store.claim(index % 2 ? 'node-a' : 'node-b', 10, now.ms)),
    )
    assert.deepEqual(ids(claims.flatMap((claimed) => claimed.jobs)).sort(), ids(jobs).sort())
  })

  on('is fair: a backlog of one account does not delay the job of another', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    await store.accept(acceptance(Array.from({ length: 50 }, () => newJob({ account: 'greedy' }))))
    await store.claim('node-a', 5, now.ms)
    const single = newJob({ account: 'modest' })
    await store.accept(acceptance([single]))
    const next = (await store.claim('node-a', 2, now.ms)).jobs
    assert.ok(ids(next).includes(single.id))
  })

  on(
    'is fair: an account whose next job comes when the last begins does not keep others waiting',
    async (store) => {
      await addAccounts(store, 'crowd', 'steady')
      await store.accept(acceptance(Array.from({ length: 50 }, () => newJob({ account: 'crowd' }))))
      const turns: string[] = []
      while (turns.length < 20) {
        if (turns.at(-1) !== 'crowd') await store.accept(acceptance([newJob({ account: 'steady' })]))
        const [claimed] = (await store.claim('node-a', 1, now.ms)).jobs
        turns.push(claimed?.account ?? 'nobody')
      }
      // Whichever is first, they take turns.
      assert.deepEqual(new Set(turns.slice(0, 2)), new Set(['crowd', 'steady']))
      for (const [index, account] of turns.slice(2).entries()) assert.equal(account, turns[index])
    },
  )

  on('shares by weight: half the step, twice the jobs', async (store) => {
    await addAccounts(store, 'one', 'two')
    await store.accept(
      acceptance(
        Array.from({ length: 40 }, () => newJob({ account: 'one' })),
        { step: 1000 },
      ),
    )
    await store.accept(
      acceptance(
        Array.from({ length: 40 }, () => newJob({ account: 'two' })),
        { step: 500 },
      ),
    )
    const claimed = (await store.claim('node-a', 30, now.ms)).jobs
    const ofTwo = claimed.filter(({ account }) => account === 'two').length
    assert.ok(ofTwo >= 19 && ofTwo <= 21, `${ofTwo} of 30`)
  })

  on('claims no more poison candidates than requested, and others nevertheless', async (store) => {
    const old = [newJob(), newJob(), newJob()]
    await store.accept(acceptance(old, { node: 'dead', handedOff: true }))
    await store.rescue('node-a', now.ms)
    const fresh = [newJob(), newJob()]
    await store.accept(acceptance(fresh))
    const none = (
      await store.claim('node-a', 1, now.ms, { candidates: { crashCount: 1, limit: 0, maxCrashCount: 3 } })
    ).jobs
    const one = (
      await store.claim('node-a', 5, now.ms, { candidates: { crashCount: 1, limit: 1, maxCrashCount: 3 } })
    ).jobs
    assert.deepEqual(ids(none), [fresh[0]?.id])
    assert.deepEqual(ids(one), [old[0]?.id, fresh[1]?.id])
    assert.equal(
      (await store.claim('node-a', 5, now.ms, { candidates: { crashCount: 2, limit: 0, maxCrashCount: 3 } }))
        .jobs.length,
      2,
    )
  })

  on('claims one account in the order of acceptance', async (store) => {
    const jobs = Array.from({ length: 20 }, () => newJob())
    for (const job of jobs) await store.accept(acceptance([job]))
    assert.deepEqual(ids((await store.claim('node-a', 20, now.ms)).jobs), ids(jobs))
  })
}
