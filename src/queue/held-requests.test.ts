import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import type { HeldRequest } from '../store/held-request-store.ts'
import { HeldRequests } from './held-requests.ts'

const REJOIN_MS = 300_000
const HASH = 'h'.repeat(22)
const EQUAL = { account: 'acme', hash: HASH, isRetry: false }

/** Returns nodes that share one database. */
function start() {
  const clock = new FakeClock()
  const live = new Set(['node-a', 'node-b'])
  const rows = new Map<string, HeldRequest>()
  const store = {
    shared: true,
    heldRequests: async (accounts: readonly string[], prefixes: readonly string[]) =>
      [...rows.values()].filter(({ account, key }) =>
        accounts.some((one, at) => one === account && key.startsWith(prefixes[at] ?? '-')),
      ),
    changeHeldRequest: async (_account: string, key: string, expected: string, state: string) => {
      const row = rows.get(key)
      if (row?.state !== expected) return false
      rows.set(key, { ...row, state })
      return true
    },
    forgetHeldRequests: async (_accounts: readonly string[], keys: readonly string[]) => {
      for (const key of keys) rows.delete(key)
    },
    liveNodes: async () => [...live],
  }
  const nodeOf = (node: string | null) =>
    new HeldRequests({
      store,
      node,
      clock,
      rejoinMs: REJOIN_MS,
      onError: (error) => assert.fail(String(error)),
    })
  /** Stores the request of a caller that creates a job at this node and waits for it. */
  const create = (node: HeldRequests, jobId: string) => {
    const { key, fingerprint: state } = node.keyOf(HASH, jobId)
    rows.set(key, { account: 'acme', key, jobId, state })
    return { account: 'acme', key, jobId }
  }
  return { clock, live, create, store, a: nodeOf('node-a'), b: nodeOf('node-b'), api: nodeOf(null) }
}

test('an equal request joins a job whose callers have left, at each node, for as long as the setting says', async () => {
  for (const [ms, joins] of [
    [REJOIN_MS - 1, true],
    [REJOIN_MS, false],
  ] as const) {
    const { clock, create, a, b } = start()
    const hold = create(b, 'job')
    assert.equal(await a.join(EQUAL), null, 'its caller waits')
    await b.left(hold)
    clock.advance(ms)
    assert.equal((await a.join(EQUAL))?.jobId, joins ? 'job' : undefined)
    assert.equal((await a.join({ ...EQUAL, isRetry: true }))?.jobId, 'job')
  }
})

test('callers on a dead node count as gone', async () => {
  const { live, create, a, b } = start()
  create(b, 'job')
  assert.equal(await a.join(EQUAL), null)
  live.delete('node-b')
  assert.equal((await a.join(EQUAL))?.jobId, 'job')
  assert.equal(await a.join(EQUAL), null, 'now a caller waits at this node')
})

test('a caller at a node without a lease waits, for every node', async () => {
  const { create, a, api } = start()
  const hold = create(api, 'job')
  assert.deepEqual([await a.join(EQUAL), await api.join(EQUAL)], [null, null])
  await api.left(hold)
  assert.equal((await a.join(EQUAL))?.jobId, 'job')
})

test('an equal request waits until it is stored that a caller has left', async () => {
  const { create, store, a } = start()
  const hold = create(a, 'job')
  const { changeHeldRequest: change } = store
  const stored = Promise.withResolvers<void>()
  store.changeHeldRequest = (...args) => stored.promise.then(() => change(...args))
  void a.left(hold)
  const joined = a.join(EQUAL)
  for (let turns = 0; turns < 20; turns++) await null
  stored.resolve()
  assert.equal((await joined)?.jobId, 'job')
})

test('retries join different jobs, those without callers first', async () => {
  const { create, a, b } = start()
  const holds = ['job 1', 'job 2', 'job 3'].map((jobId) => create(b, jobId))
  for (const hold of holds.slice(1)) await b.left(hold)
  const joined: (string | undefined)[] = []
  for (let retry = 0; retry < 4; retry++) joined.push((await a.join({ ...EQUAL, isRetry: true }))?.jobId)
  assert.deepEqual(joined, ['job 2', 'job 3', 'job 1', 'job 2'])
})

test('the job of an answered request is not joined', async () => {
  const { create, a } = start()
  const hold = create(a, 'job')
  a.answered(hold)
  assert.equal(await a.join({ ...EQUAL, isRetry: true }), null)
})
