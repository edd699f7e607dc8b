import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Priority } from '../job/priority.ts'
import { Stop, type StopListener } from '../job/stop.ts'
import { FairSlots, freeSharedSlots, mayAcquire, reserveOf } from './fair-slots.ts'

const never = new Stop()

/** `granted` lists the accounts in the order in which they got the slots that they asked for with `ask`. */
function slots(limit: number, reserve = 0) {
  const shared = new FairSlots({ limit, reserve })
  const granted: string[] = []
  const ask = async (account: string, weight = 1): Promise<void> => {
    if (await shared.acquire(account, weight, never)) granted.push(account)
  }
  /** Releases one slot of each account in turn, and waits for each grant, which happens in a microtask. */
  const release = async (...accounts: string[]): Promise<void> => {
    for (const account of accounts) {
      shared.release(account)
      await Promise.resolve()
    }
  }
  return { shared, granted, ask, release }
}

test('the reserve is a sixteenth of the slots, at least one, and none below four slots', () => {
  assert.deepEqual([1, 3, 4, 15, 16, 31, 32, 256].map(reserveOf), [0, 0, 1, 1, 1, 1, 2, 16])
})

test('a request that need not wait is answered without a promise', () => {
  const { shared } = slots(1)
  const stopped = new Stop()
  stopped.now('lost')
  assert.equal(shared.acquire('acme', 1, stopped), false)
  assert.equal(shared.acquire('acme', 1, never), true)
})

test('the next slot goes to the account that holds fewest, however many requests of others wait longer', async () => {
  const { granted, ask, release } = slots(4)
  for (let call = 0; call < 120; call++) void ask('acme')
  void ask('other')
  void ask('third')
  await release('acme', 'acme')
  assert.deepEqual(granted, ['acme', 'acme', 'acme', 'acme', 'other', 'third'])
})

test('accounts that wait for a single slot take turns, whatever their weights', async () => {
  const { granted, ask, release } = slots(1)
  for (let call = 0; call < 3; call++) void ask('acme', 16)
  for (let call = 0; call < 3; call++) void ask('other', 1)
  await release('acme', 'other', 'acme', 'other', 'acme')
  assert.deepEqual(granted, ['acme', 'other', 'acme', 'other', 'acme', 'other'])
})

test('the reserve goes only to accounts that hold no slot', async () => {
  const { shared, granted, ask, release } = slots(8, 2)
  for (let i = 0; i < 6; i++) assert.ok(shared.tryAcquire('acme'))
  assert.equal(freeSharedSlots({ limit: 8, reserve: 2 }, shared.held), 0)
  assert.equal(shared.tryAcquire('acme'), false)
  assert.equal(shared.tryAcquire('other'), true)
  assert.equal(shared.tryAcquire('other'), false)
  assert.equal(shared.tryAcquire('third'), true)
  assert.equal(shared.tryAcquire('fourth'), false)

  void ask('acme')
  void ask('fourth')
  await release('acme')
  assert.deepEqual(granted, ['fourth'])
  await release('acme')
  assert.deepEqual(granted, ['fourth'], 'the slot is the reserve again')
  await release('other', 'third')
  assert.deepEqual(granted, ['fourth', 'acme'])
})

test('the reserve may go to accounts that hold a few slots', () => {
  const { shared } = slots(8)
  for (const account of ['acme', 'acme', 'acme', 'acme', 'other']) assert.ok(shared.tryAcquire(account))
  const options = { limit: 8, reserve: 3, reserveUpTo: 2 }
  assert.deepEqual(
    ['acme', 'other', 'third'].map((account) => mayAcquire(options, shared.held, account)),
    [false, true, true],
  )
})

test('an account that waits for a second slot gets one of the reserve once it holds none', async () => {
  const { shared, granted, ask, release } = slots(4, 1)
  for (const account of ['acme', 'acme', 'other']) assert.ok(shared.tryAcquire(account))
  void ask('other')
  assert.deepEqual(granted, [])
  await release('other')
  assert.deepEqual([granted, shared.held.of('other'), shared.waiting.total], [['other'], 1, 0])
})

test('a request whose signal stops is removed, and no other', async () => {
  const { shared } = slots(1)
  const stop = new Stop()
  assert.ok(shared.tryAcquire('acme'))
  const stopped = shared.acquire('other', 1, stop)
  const waiting = shared.acquire('other', 1, never)
  stop.now('release')
  assert.equal(await stopped, false)
  assert.equal(shared.waiting.of('other'), 1)
  shared.release('acme')
  assert.equal(await waiting, true)
  assert.deepEqual([shared.held.of('other'), shared.held.total, shared.waiting.total], [1, 1, 0])
})

test('a request that acquired its slot keeps it when its signal stops later', async () => {
  let listening = 0
  class CountedStop extends Stop {
    override listen(listener: StopListener): void {
      listening += 1
      super.listen(listener)
    }
    override unlisten(listener: StopListener): void {
      listening -= 1
      super.unlisten(listener)
    }
  }
  const { shared } = slots(1)
  const stop = new CountedStop()
  assert.ok(shared.tryAcquire('acme'))
  const waiting = shared.acquire('other', 1, stop)
  assert.equal(listening, 1)
  shared.release('acme')
  assert.equal(listening, 0)
  stop.now('release')
  assert.equal(await waiting, true)
  assert.equal(shared.held.of('other'), 1)
})

test('a higher priority goes first, whichever account waits longer, and a lower one gets every twentieth slot', async () => {
  const slots = new FairSlots({ limit: 1, reserve: 0 })
  const granted: string[] = []
  const ask = (account: string, priority: Priority) =>
    void Promise.resolve(slots.acquire(account, 1, new Stop(), priority)).then(() =>
      granted.push(`${account} ${priority}`),
    )
  assert.ok(slots.tryAcquire('holder'))
  ask('one', 'low')
  ask('one', 'normal')
  for (let n = 0; n < 40; n++) ask(n % 2 ? 'one' : 'other', 'high')
  let holder = 'holder'
  while (granted.length < 42) {
    const before = granted.length
    slots.release(holder)
    await Promise.resolve()
    await Promise.resolve()
    assert.equal(granted.length, before + 1)
    holder = granted.at(-1)?.split(' ')[0] ?? ''
  }
  assert.deepEqual(
    granted.flatMap((one, index) => (one.endsWith('high') ? [] : [[one, index]])),
    [
      ['one normal', 19],
      ['one low', 20],
    ],
  )
  assert.equal(slots.waiting.total, 0)
})
