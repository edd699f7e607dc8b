import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Failed, GroupCommit, type GroupCommitOptions } from './group-commit.ts'
import { StoreUnavailable } from './store.ts'

/** Starts a group commit to a database whose commits end when the test calls `end`. */
function start(over: Partial<GroupCommitOptions<number, number>> = {}) {
  const groups: {
    ops: readonly number[]
    end: (results?: (number | Failed)[]) => void
    fail: (error: Error) => void
  }[] = []
  let began: (() => void)[] = []
  const commit = (ops: readonly number[]) =>
    new Promise<(number | Failed)[]>((resolve, reject) => {
      const end = (results: (number | Failed)[] = ops.map((op) => op * 10)) => resolve(results)
      groups.push({ ops, end, fail: reject })
      for (const tell of began.splice(0)) tell()
    })
  /** Resolves with the group at this index when its commit has begun. */
  const group = async (index: number) => {
    while (!groups[index]) await new Promise<void>((resolve) => began.push(resolve))
    began = []
    return groups[index]
  }
  const end = async (index: number) => (await group(index)).end()
  const writes = new GroupCommit({ commit, inFlight: 1, maxGroup: 100, maxQueued: 100, ...over })
  return { writes, group, end, ops: () => groups.map(({ ops }) => ops) }
}

test('what arrives during a commit makes the next group', async () => {
  const sizes: number[] = []
  const { writes, group, end, ops } = start({ onCommit: (size) => void sizes.push(size) })
  const first = [writes.submit(1), writes.submit(2)]
  const one = await group(0)
  const second = [writes.submit(3), writes.submit(4), writes.submit(5)]
  one.end()
  assert.deepEqual(await Promise.all(first), [10, 20])
  await end(1)
  assert.deepEqual(await Promise.all(second), [30, 40, 50])
  assert.deepEqual(ops(), [
    [1, 2],
    [3, 4, 5],
  ])
  assert.deepEqual(sizes, [2, 3])
})

test('a group is no heavier than it may be; one that is heavier alone is a group of its own', async () => {
  const weight = { of: (op: number) => op, max: 10 }
  const { writes, end, ops } = start({ maxGroup: 9, weight })
  const all = [4, 6, 5, 6, 11, 12, 1, 2].map((op) => writes.submit(op))
  for (const index of [0, 1, 2, 3, 4, 5]) await end(index)
  await Promise.all(all)
  assert.deepEqual(ops(), [[4, 6], [5], [6], [11], [12], [1, 2]])
})

test('a group is no larger than it may be, and keeps the order', async () => {
  const { writes, group, end, ops } = start({ maxGroup: 2 })
  const all = [1, 2, 3, 4, 5].map((op) => writes.submit(op))
  await group(0)
  await nextTurn()
  assert.equal(ops().length, 1, 'only one may be in commit')
  for (const index of [0, 1, 2]) await end(index)
  assert.deepEqual(await Promise.all(all), [10, 20, 30, 40, 50])
  assert.deepEqual(ops(), [[1, 2], [3, 4], [5]])
})

test('one operation may fail and its neighbours not', async () => {
  const { writes, group } = start()
  const all = Promise.allSettled([writes.submit(1), writes.submit(2)])
  ;(await group(0)).end([1, new Failed(new Error('no'))])
  const statuses = (await all).map(({ status }) => status)
  assert.deepEqual(statuses, ['fulfilled', 'rejected'])
})

test('a failed commit fails its group only', async () => {
  const { writes, group, end } = start()
  const first = writes.submit(1)
  const one = await group(0)
  const second = writes.submit(2)
  one.fail(new StoreUnavailable('disk full'))
  await assert.rejects(first, StoreUnavailable)
  await end(1)
  assert.equal(await second, 20)
})

test('sheds what may be shed when too much waits, and takes the rest', async () => {
  const { writes, group, end } = start({ maxQueued: 3 })
  const under = writes.submit(0)
  const one = await group(0)
  const waiting = [writes.submit(1, { sheddable: true }), writes.submit(2, { sheddable: true })]
  await assert.rejects(writes.submit(3, { sheddable: true }), StoreUnavailable)
  waiting.push(writes.submit(4))
  one.end()
  await end(1)
  assert.deepEqual(await Promise.all([under, ...waiting]), [0, 10, 20, 40])
})

test('drained resolves when nothing is left, at once if nothing was', async () => {
  const { writes, end } = start({ maxGroup: 1 })
  await writes.drained()
  const done: string[] = []
  const all = [writes.submit(1), writes.submit(2)]
  const drained = writes.drained().then(() => done.push('drained'))
  await end(0)
  await all[0]
  assert.deepEqual(done, [])
  await end(1)
  await drained
  assert.equal(await all[1], 20)
})

test('groups may be in commit side by side, in order', async () => {
  const { writes, group, end } = start({ inFlight: 2 })
  const first = writes.submit(1)
  const one = await group(0)
  const second = writes.submit(2)
  const two = await group(1)
  const third = [writes.submit(3), writes.submit(4)]
  two.end()
  assert.equal(await second, 20)
  await end(2)
  assert.deepEqual(await Promise.all(third), [30, 40])
  one.end()
  assert.equal(await first, 10)
  await writes.drained()
})

/** Starts a group commit whose commits end at once. The test advances its timers. */
function startWaiting(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const groups: (readonly number[])[] = []
  const commit = async (ops: readonly number[]) => {
    groups.push(ops)
    return ops
  }
  const writes = new GroupCommit<number, number>({ commit, inFlight: 1, maxGroup: 100, maxQueued: 100 })
  /** Advances the timers, and waits until what is due has been sent. Returns all groups. */
  const after = async (ms: number) => {
    t.mock.timers.tick(ms)
    await nextTurn()
    return groups
  }
  return { writes, after }
}

test('an operation waits for others as long as it may, and no longer', async (t) => {
  const { writes, after } = startWaiting(t)
  const all = [writes.submit(1, { mayWaitMs: 10 }), writes.submit(2, { mayWaitMs: 7 })]
  assert.deepEqual(await after(6), [])
  all.push(writes.submit(3, { mayWaitMs: 9 }))
  assert.deepEqual(await after(1), [[1, 2, 3]])
  await Promise.all(all)
  const next = writes.submit(4, { mayWaitMs: 5 })
  // The timer of the first operation would end by now, but was cleared when its group was sent.
  assert.equal((await after(4)).length, 1)
  assert.deepEqual(await after(1), [[1, 2, 3], [4]])
  await next
  // An operation that comes later and may wait for less does not extend the wait of the first one.
  void writes.submit(5, { mayWaitMs: 10 })
  assert.equal((await after(9)).length, 2)
  const last = writes.submit(6, { mayWaitMs: 9 })
  assert.deepEqual(await after(1), [[1, 2, 3], [4], [5, 6]])
  await last
})

test('an operation that does not wait takes along those that do, and so do many', async (t) => {
  const { writes, after } = startWaiting(t)
  void writes.submit(1, { mayWaitMs: 10 })
  void writes.submit(2)
  assert.deepEqual(await after(0), [[1, 2]])
  // A timer cannot wait for less than a millisecond.
  void writes.submit(3, { mayWaitMs: 0.9 })
  assert.deepEqual(await after(0), [[1, 2], [3]])
  const many = Array.from({ length: 16 }, (_, index) => index)
  for (const op of many) void writes.submit(op, { mayWaitMs: 10 })
  assert.deepEqual(await after(0), [[1, 2], [3], many])
})

test('operations that may wait are committed before the store is drained', async (t) => {
  const { writes, after } = startWaiting(t)
  const one = writes.submit(1, { mayWaitMs: 10 })
  const drained = writes.drained()
  assert.deepEqual(await after(10), [[1]])
  await Promise.all([one, drained])
})
