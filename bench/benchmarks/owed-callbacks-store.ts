/** Creates a store of finished jobs with pending callbacks, in the state in which the server leaves them. */
import { issueKey } from '../../src/accounts/key.ts'
import { callbackText, type Job } from '../../src/job/job.ts'
import type { CallbackBody } from '../../src/store/callback-store.ts'
import { openStore } from '../../src/store/open.ts'
import type { Settlement, Store } from '../../src/store/store.ts'
import { ACCOUNT } from '../load/owed-callbacks.ts'

const NODE = 'bench'
/** The setting `postgres.connections` has this default. */
const CONNECTIONS = 10
const RETENTION_MS = 604_800_000
const TOGETHER = 1000

export async function fillWithOwed(url: string, owed: readonly CallbackBody[]): Promise<string> {
  const store = await openStore(url, {
    node: NODE,
    connections: CONNECTIONS,
    prepare: true,
    statementMs: 60_000,
    maxQueued: Number.POSITIVE_INFINITY,
    retentionMs: RETENTION_MS,
    nowMs: Date.now,
    onNote: () => {},
    onFatal: (error) => {
      throw error
    },
  })
  const issued = await issueKey(store, {
    account: ACCOUNT,
    tier: 'user_max',
    expiresDays: null,
    nowMs: Date.now(),
  })
  if (issued.kind !== 'issued') throw new Error(`the account is there already, of tier ${issued.tier}`)
  for (let at = 0; at < owed.length; at += TOGETHER) {
    await Promise.all(owed.slice(at, at + TOGETHER).map((one) => accept(store, one)))
  }
  await store.close()
  return issued.key
}

async function accept(store: Store, { callback, view }: CallbackBody): Promise<void> {
  const messages = [{ role: 'user', content: 'Tell me when you are done.' }] as const
  const job: Job = {
    id: view.id,
    account: ACCOUNT,
    tier: 'user_max',
    model: 'gpt-5-mini',
    messagesJson: JSON.stringify(messages),
    responseFormatJson: '{"format":"text"}',
    cacheTtlMs: 300_000,
    callbackJson: callbackText(callback),
    createdAtMs: view.createdAtMs,
    inputTokens: 8,
  }
  const settlement: Settlement = {
    jobId: view.id,
    node: NODE,
    attempt: 1,
    model: 'gpt-5-mini',
    outcome: { status: 'completed', contentJson: view.contentJson ?? 'null' },
    usage: {
      target: 'openai/bench',
      input_tokens: 8,
      output_tokens: 240,
      calls: 1,
      cache_hit: false,
      repaired: false,
    },
    receiptJson: '{"form":"text","calls":[]}',
    cache: null,
    nowMs: Date.now(),
  }
  const newJob = { job, handedOff: true, step: 0, awaited: false, route: '' }
  await store.accept({ node: settlement.node, jobs: [newJob], idempotency: null, nowMs: settlement.nowMs })
  await store.settle(settlement)
}
