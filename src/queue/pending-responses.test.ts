/** Tests requests that wait for one job, for any or all of several, and for the job of an earlier request. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { JobCreator, type JobCreatorOptions } from './job-creator.ts'
import { PendingResponses, type WaitEnd, waitForJobs } from './pending-responses.ts'

const VANISHED: WaitEnd = { kind: 'vanished' }

const settled = (id: string): WaitEnd => ({
  kind: 'settled',
  record: { id, status: 'completed', createdAtMs: 0, contentJson: '1', errorJson: null, usageJson: null },
  cacheHit: true,
})

function start(most: number) {
  const clock = new FakeClock()
  const pendingResponses = new PendingResponses(clock, most)
  const add = (jobId: string, account = 'acme', ms = 30_000) => pendingResponses.add(jobId, account, ms)
  return { clock, pendingResponses, add }
}

describe('a wait for a job', () => {
  it('ends when the job is settled, as every other wait for it does, and no wait for another', async () => {
    const { pendingResponses, add } = start(10)
    const [first, second, other] = [add('a'), add('a', 'acme', 90_000), add('b')]
    assert.equal(pendingResponses.count, 3)
    const end = settled('a')
    pendingResponses.end('a', end)
    assert.deepEqual(await Promise.all([first?.ended, second?.ended]), [end, end])
    assert.equal(pendingResponses.count, 1)
    pendingResponses.end('b', VANISHED)
    assert.deepEqual(await other?.ended, VANISHED)
    assert.equal(pendingResponses.count, 0)
  })

  it('ends when its time has passed, whichever of several it is', async () => {
    const { clock, pendingResponses, add } = start(10)
    const waits = [50_000, 30_000, 70_000].map((ms) => add('a', 'acme', ms))
    clock.advance(30_000)
    assert.deepEqual(await waits[1]?.ended, { kind: 'timeout' })
    assert.equal(pendingResponses.count, 2)
    clock.advance(20_000)
    assert.deepEqual(await waits[0]?.ended, { kind: 'timeout' })
    pendingResponses.end('a', settled('a'))
    assert.equal((await waits[2]?.ended)?.kind, 'settled')
    assert.equal(pendingResponses.count, 0)
    assert.deepEqual(clock.pending(), [])
  })

  it('is left once, also if it is left twice or after its end', async () => {
    const { pendingResponses, add } = start(10)
    const [one, two] = [add('a'), add('a')]
    one?.leave()
    one?.leave()
    assert.equal(pendingResponses.count, 1)
    pendingResponses.end('a', settled('a'))
    two?.leave()
    assert.equal(pendingResponses.count, 0)
    assert.equal((await two?.ended)?.kind, 'settled')
  })

  it('is one of no more than allowed, and none starts while the server stops', async () => {
    const { pendingResponses, add } = start(1)
    const one = add('a')
    assert.equal(add('b'), null)
    one?.leave()
    const again = add('b')
    pendingResponses.stop()
    assert.deepEqual(await again?.ended, { kind: 'stopping' })
    assert.equal(add('c'), null)
  })

  it('of one account leaves a reserve, of which any other has its part', () => {
    const { pendingResponses, add } = start(512)
    const added = (account: string) => {
      let count = 0
      while (add(`${account} ${count}`, account) !== null) count += 1
      return count
    }
    assert.equal(added('crowd'), 480)
    assert.deepEqual([added('second'), added('third'), added('crowd')], [2, 2, 0])
    pendingResponses.end('crowd 0', VANISHED)
    assert.equal(pendingResponses.count, 483)
  })

  it('makes room for another one of its account when it ends', () => {
    const { pendingResponses, add } = start(4)
    const [one, two] = ['a', 'b', 'c'].map((jobId) => add(jobId))
    assert.equal(add('d'), null)
    pendingResponses.end('a', VANISHED)
    two?.leave()
    one?.leave()
    assert.ok(add('d') && add('d'))
    assert.equal(add('d'), null)
  })

  it('of a repeated request ends when the earlier job is deleted', async () => {
    const { clock, pendingResponses } = start(8)
    const creator = new JobCreator({ clock, pendingResponses } as unknown as JobCreatorOptions)
    const found = { contentJson: null, errorJson: null, usageJson: null }
    const record = { id: 'job', status: 'assigned', createdAtMs: 0, ...found } as const
    const wait = await creator.awaitEarlier('job', 'acme', 90_000, async () => record)
    assert.ok('ended' in wait && pendingResponses.awaitsExisting('job'))
    pendingResponses.vanished('job')
    assert.deepEqual(await wait.ended, VANISHED)
  })
})

describe('a wait for several jobs', () => {
  function startWaits(most = 100) {
    const { clock, pendingResponses } = start(most)
    const wait = (until: 'any' | 'all', ...jobIds: string[]) =>
      waitForJobs(pendingResponses, {
        account: 'acme',
        jobIds: jobIds.length > 0 ? jobIds : ['a', 'b', 'c'],
        ms: 30_000,
        until,
      })
    const assertNoneLeft = () => assert.deepEqual([pendingResponses.count, clock.pending()], [0, []])
    return { clock, pendingResponses, wait, assertNoneLeft }
  }

  it('for any ends with the first job, one for all with the last, and neither keeps a slot', async () => {
    const { pendingResponses, wait } = startWaits()
    const [any, all] = [wait('any'), wait('all')]
    assert.equal(pendingResponses.count, 6)
    let hasEnded = false
    void all?.ended.then(() => {
      hasEnded = true
    })
    pendingResponses.end('b', VANISHED)
    assert.equal(await any?.ended, 'ended')
    assert.equal(pendingResponses.count, 2)
    pendingResponses.end('a', VANISHED)
    await setImmediate()
    assert.equal(hasEnded, false)
    pendingResponses.end('c', VANISHED)
    assert.equal(await all?.ended, 'ended')
    assert.equal(pendingResponses.count, 0)
  })

  it('ends when its time is over, whatever ended meanwhile, and leaves no timer', async () => {
    const { clock, pendingResponses, wait, assertNoneLeft } = startWaits()
    const all = wait('all')
    pendingResponses.end('a', VANISHED)
    clock.advance(30_000)
    assert.equal(await all?.ended, 'timeout')
    assertNoneLeft()
  })

  it('ends at once when it is left, and frees its slots', async () => {
    const { wait, assertNoneLeft } = startWaits()
    const any = wait('any')
    any?.leave()
    any?.leave()
    assertNoneLeft()
    assert.equal(await any?.ended, 'timeout')
  })

  it('starts for all of them or none: without a slot for each, the slots are free again', () => {
    const { pendingResponses, wait } = startWaits(2)
    assert.equal(wait('any'), null)
    assert.equal(pendingResponses.count, 0)
    assert.notEqual(wait('any', 'a'), null)
  })

  it('ends as that if the server stops', async () => {
    const { pendingResponses, wait } = startWaits()
    const all = wait('all')
    pendingResponses.stop()
    assert.equal(await all?.ended, 'stopping')
    assert.equal(wait('all'), null)
  })
})
