/** What every store guarantees after it is closed and opened again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  acceptance,
  addAccounts,
  claimNext,
  expiry,
  ids,
  type MakePlace,
  newJob,
  now,
  START_MS,
  settlement,
} from './fixtures.ts'

export function durabilityTests(makePlace: MakePlace): void {
  test('what was stored is there when the store is opened again', async (t) => {
    now.ms = START_MS
    const place = await makePlace(t)
    const [done, waiting] = [newJob(), newJob({ account: 'other' })]
    const keep = { fingerprint: 'd'.repeat(22), untilMs: now.ms + 300_000 }
    const first = await place.open()
    await addAccounts(first, 'acme', 'other')
    await first.accept(acceptance([done], { handedOff: true }))
    await first.accept(acceptance([waiting]))
    await first.settle(settlement({ jobId: done.id, attempt: 1 }, { cache: keep }))
    await first.close()

    const second = await place.open()
    t.after(() => second.close())
    assert.equal((await second.read('acme', done.id, expiry()))?.contentJson, '"Hello back"')
    assert.equal(await second.findResponse(keep.fingerprint, now.ms), '"Hello back"')
    assert.equal((await second.depth()).waiting, 1)
    assert.deepEqual(ids(await claimNext(second, 'node-c', 5)), [waiting.id])
  })

  test('fair order survives the process', async (t) => {
    now.ms = START_MS
    const place = await makePlace(t)
    const first = await place.open()
    await addAccounts(first, 'greedy', 'modest')
    await first.accept(acceptance(Array.from({ length: 20 }, () => newJob({ account: 'greedy' }))))
    await claimNext(first, 'node-a', 10)
    await first.close()
    const second = await place.open()
    t.after(() => second.close())
    const single = newJob({ account: 'modest' })
    await second.accept(acceptance([newJob({ account: 'greedy' })]))
    await second.accept(acceptance([single]))
    assert.ok(ids(await claimNext(second, 'node-b', 2)).includes(single.id))
  })

  test('writes handed over before a close are stored', async (t) => {
    now.ms = START_MS
    const place = await makePlace(t)
    const first = await place.open()
    await addAccounts(first, 'acme')
    const jobs = Array.from({ length: 50 }, () => newJob())
    const accepted = Promise.all(jobs.map((job) => first.accept(acceptance([job]))))
    await first.close()
    await accepted
    const second = await place.open()
    t.after(() => second.close())
    assert.equal((await second.depth()).waiting, 50)
  })
}
