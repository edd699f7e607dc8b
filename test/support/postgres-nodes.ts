/** Opens several stores on one Postgres, one for each node, and records the notifications that each receives. */
import { randomBytes } from 'node:crypto'
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import type { Store } from '../../src/store/store.ts'
import { AwaitedList } from './awaited-list.ts'

export interface TestNode {
  readonly name: string
  readonly store: Store
  settled(count: number): Promise<readonly string[]>
  jobsWaiting(times: number): Promise<void>
  readonly notes: string[]
}

export async function openNode(url: string): Promise<TestNode> {
  const name = randomBytes(8).toString('hex')
  const settled = new AwaitedList<string>()
  const waiting = new AwaitedList<true>()
  const notes: string[] = []
  const store = await openPostgresStore({
    url,
    node: name,
    connections: 10,
    prepare: true,
    statementMs: 15_000,
    maxQueued: 1000,
    retentionMs: 604_800_000,
    nowMs: () => Date.now(),
    onNote: (message) => notes.push(message),
  })
  store.subscribe({ jobsWaiting: () => waiting.add(true), settled: (jobIds) => settled.add(...jobIds) })
  return {
    name,
    store,
    notes,
    settled: (count) => settled.atLeast(count),
    jobsWaiting: async (times) => {
      await waiting.atLeast(waiting.all.length + times)
    },
  }
}
