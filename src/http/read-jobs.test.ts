import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import type { ReadJob } from '../store/store.ts'
import { LARGE_ANSWER } from './large-answers.ts'
import { JobReader } from './read-jobs.ts'

const REQUEST = { caller: { account: 'acme' } } as FastifyRequest

/** @param bytes the length of each job's result, by job ID */
function start(bytes: ReadonlyMap<string, number>) {
  const reserved: number[] = []
  let uncounted = 0
  const reader = new JobReader({
    store: {
      read: async (_account, id, _expiry, maxBytes = Number.POSITIVE_INFINITY) => {
        const length = bytes.get(id) ?? 0
        const isLoaded = length <= maxBytes
        if (isLoaded && maxBytes < Number.POSITIVE_INFINITY) uncounted += length
        const contentJson = isLoaded ? 'x'.repeat(length) : null
        return { id, status: 'completed', contentJson, omittedBytes: isLoaded ? 0 : length } as ReadJob
      },
      metadataOf: () => assert.fail('no metadata is asked for'),
      areOverBudget: () => assert.fail('no job is open'),
    },
    clock: { nowMs: () => 0 },
    retentionMs: 1000,
    budgetsWait: false,
    answers: { reserve: async (_request, count) => void reserved.push(count) },
  })
  const read = async () => {
    const states = await reader.states(REQUEST, [...bytes.keys()])
    const records = await reader.load(
      REQUEST,
      states.filter((state) => state !== null),
    )
    return records.map((record) => record?.contentJson?.length)
  }
  return { read, reserved, uncounted: () => uncounted }
}

test('results that are read together are counted together, before they are loaded', async () => {
  for (const [count, length] of [
    [1, LARGE_ANSWER],
    [1, LARGE_ANSWER + 1],
    [2, LARGE_ANSWER / 2],
    [2, LARGE_ANSWER / 2 + 1],
    [100, 600],
    [100, 700],
    [100, LARGE_ANSWER],
  ] as const) {
    const bytes = new Map(Array.from({ length: count }, (_, at) => [`job ${at}`, length]))
    const { read, reserved, uncounted } = start(bytes)
    assert.deepEqual(await read(), [...bytes.values()])
    assert.ok(uncounted() <= LARGE_ANSWER, `${count} results of ${length} bytes`)
    assert.deepEqual(reserved, count * length > LARGE_ANSWER ? [count * length] : [])
  }
})
