import assert from 'node:assert/strict'
import test from 'node:test'
import { DEFAULTS } from './settings.ts'
import { threadCount } from './thread-count.ts'

const FACTS = { cores: 16, version: '26.10.0', isPostgres: false }

test('auto is 1 below 4 cores, else a core less than there are, and 8 at most', () => {
  const counts = [1, 2, 3, 4, 5, 9, 64].map((cores) => threadCount(DEFAULTS, { ...FACTS, cores }))
  assert.deepEqual(
    counts.map(({ threads }) => threads),
    [1, 1, 1, 3, 4, 8, 8],
  )
  assert.ok(counts.every(({ note }) => note === null))
})

test('a number is taken as it is, whatever the cores', () => {
  assert.deepEqual(threadCount({ ...DEFAULTS, threads: 12 }, { ...FACTS, cores: 2 }), {
    threads: 12,
    note: null,
  })
})

test('on Postgres each thread needs three connections, and a note says so', () => {
  const facts = { ...FACTS, isPostgres: true }
  const withConnections = (connections: number) =>
    threadCount({ ...DEFAULTS, threads: 3, postgres: { ...DEFAULTS.postgres, connections } }, facts)
  assert.deepEqual(withConnections(9), { threads: 3, note: null })
  assert.equal(withConnections(8).threads, 2)
  assert.match(withConnections(8).note ?? '', /2 request threads instead of 3: postgres\.connections is 8/)
  assert.equal(withConnections(5).threads, 1)
})

test('where connections cannot be moved there is one thread, and a note says so', () => {
  const asked = { ...DEFAULTS, threads: 3 }
  const onSocket = threadCount({ ...asked, host: 'unix:/run/parley.sock' }, FACTS)
  assert.equal(onSocket.threads, 1)
  assert.match(onSocket.note ?? '', /Unix socket/)
  const onOldNode = threadCount(asked, { ...FACTS, version: '24.16.0' })
  assert.equal(onOldNode.threads, 1)
  assert.match(onOldNode.note ?? '', /Node 24\.16\.0 cannot move connections/)
  assert.equal(threadCount(asked, { ...FACTS, version: '26.6.0' }).threads, 3)
  assert.equal(threadCount({ ...DEFAULTS, host: 'unix:/run/parley.sock' }, FACTS).note, null, 'auto')
})
