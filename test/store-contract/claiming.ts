/** Tests what every store guarantees about claim: one node per job, in fair order. */
import assert from 'node:assert/strict'
import type { Callback, Job } from '../../src/job/job.ts'
import { INLINE_TEXT_BYTES } from '../../src/store/store.ts'
import { ids, newJob, now, OF_ROUTE, type On, several } from './fixtures.ts'
import { accept, addAccounts, addQueued, claimNext, settle } from './steps.ts'

export function claimTests(on: On): void {
  on('returns every field of a job as it was accepted', async (store) => {
    const payloadJson = '{"big":12345678901234567890,"huge":1e400}'
    const callback: Callback = { url: 'https://example.com/hook', headers: { 'x-a': 'ä' }, payloadJson }
    const messages = [
      { role: 'developer', content: 'nul \u0000, half \ud800, whole 😀, line\u2028' },
      { role: 'user', content: '' },
    ] as const
    const responseFormat = { format: 'json', schema: { type: 'object', __proto__x: 1 } } as const
    const job = await addQueued(store, { callback, messages, responseFormat, cacheTtlMs: 180_501 })
    const [claimed] = await claimNext(store, 'node-a', 1)
    assert.deepEqual(claimed, { ...job, attempt: 1, crashCount: 0, crashedAlone: false })
  })

  on('gives each job to one node only', async (store) => {
    const jobs = await accept(store, several(60))
    const claims = await Promise.all(
      Array.from({ length: 12 }, (_, index) => claimNext(store, index % 2 ? 'node-a' : 'node-b', 10)),
    )
    assert.deepEqual(ids(claims.flat()).sort(), ids(jobs).sort())
  })

  on('is fair: a backlog of one account does not delay the job of another', async (store) => {
    await addAccounts(store, 'greedy', 'modest')
    await accept(store, several(50, { account: 'greedy' }))
    await claimNext(store, 'node-a', 5)
    const single = await addQueued(store, { account: 'modest' })
    assert.ok(ids(await claimNext(store, 'node-a', 2)).includes(single.id))
  })

  on(
    'is fair: an account whose next job comes when the last begins does not keep others waiting',
    async (store) => {
      await addAccounts(store, 'crowd', 'steady')
      await accept(store, several(50, { account: 'crowd' }))
      const turns: string[] = []
      while (turns.length < 20) {
        if (turns.at(-1) !== 'crowd') await addQueued(store, { account: 'steady' })
        const [claimed] = await claimNext(store, 'node-a', 1)
        turns.push(claimed?.account ?? 'nobody')
      }
      // Either account may be first, but then they must take turns.
      assert.deepEqual(new Set(turns.slice(0, 2)), new Set(['crowd', 'steady']))
      for (const [index, account] of turns.slice(2).entries()) assert.equal(account, turns[index])
    },
  )

  on('shares by weight: half the step, twice the jobs', async (store) => {
    await addAccounts(store, 'one', 'two')
    await accept(store, several(40, { account: 'one' }), { step: 1000 })
    await accept(store, several(40, { account: 'two' }), { step: 500 })
    const claimed = await claimNext(store, 'node-a', 30)
    const ofTwo = claimed.filter(({ account }) => account === 'two').length
    assert.ok(ofTwo >= 19 && ofTwo <= 21, `${ofTwo} of 30`)
  })

  on('claims one account in the order of acceptance', async (store) => {
    const jobs = several(20)
    for (const job of jobs) await accept(store, [job])
    assert.deepEqual(ids(await claimNext(store, 'node-a', 20)), ids(jobs))
  })

  on('large texts do not come with a claim, and are read separately', async (store) => {
    const callback: Callback = { url: 'https://example.com/', headers: { 'x-a': 'b' }, payloadJson: '"€€"' }
    const bytesOf = ({ messagesJson, responseFormatJson, callbackJson }: Job) =>
      Buffer.byteLength(messagesJson + responseFormatJson + callbackJson)
    const containing = (content: string) => newJob({ messages: [{ role: 'user', content }], callback })
    const left = INLINE_TEXT_BYTES - bytesOf(containing(''))
    const [fits, tooLarge, large] = await accept(store, [
      containing('x'.repeat(left)),
      containing('x'.repeat(left + 1)),
      containing('€'.repeat(100_000)),
    ])
    const { jobs } = await store.claim('node-a', 3, now.ms, OF_ROUTE)
    const claim = { attempt: 1, crashCount: 0, crashedAlone: false }
    assert.deepEqual(jobs[0], { ...fits, ...claim })
    for (const [index, job] of [tooLarge, large].entries()) {
      const { messagesJson, responseFormatJson, callbackJson, ...rest } = job
      assert.deepEqual(jobs[index + 1], { ...rest, ...claim, textBytes: bytesOf(job) })
      assert.deepEqual(await store.readTexts(job.id), { messagesJson, responseFormatJson, callbackJson })
    }
    assert.equal(await settle(store, large), 'settled')
    assert.equal(await store.readTexts(newJob().id), null)
  })
}
