/**
 * Fills a database through the store, as if it had been used for ten days. It contains every kind of account, key, job,
 * callback, cached response and idempotency key that a copy must handle, in varied numbers.
 */
import { randomBytes } from 'node:crypto'
import {
  type Callback,
  callbackText,
  eventTo,
  type Job,
  type Message,
  type Outcome,
} from '../../src/job/job.ts'
import { jobIdMaker } from '../../src/job/job-id.ts'
import { PIECE_BYTES } from '../../src/store/file-store.ts'
import { type OpenOptions, openStore } from '../../src/store/open.ts'
import type { Idempotency, Store } from '../../src/store/store.ts'
import { claimOf, type JobFields, newJob, settlement } from '../store-contract/fixtures.ts'
import { claimNext, storeEnded } from '../store-contract/steps.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const RETENTION_MS = 7 * DAY_MS
const ACCOUNTS = ['acme', 'bob', 'eve'] as const
/** These jobs are more than a copy writes in one batch, so it needs several. */
const ENDED = 1200
const WAITING = 120
/** Both stores compress a text of this length. */
const COMPRESSED = 'compressed '.repeat(4000)

export interface Population {
  readonly nowMs: number
  readonly retentionMs: number
  readonly expired: readonly string[]
  readonly keptFingerprint: string
  readonly idempotencyKey: Idempotency & { readonly jobId: string }
}

export async function populate(url: string, seed: number): Promise<Population> {
  const random = randomFrom(seed)
  const nowMs = Date.now()
  const clock = { ms: nowMs - 10 * DAY_MS }
  const makeId = jobIdMaker({ nowMs: () => clock.ms }, (bytes) => randomBytes(bytes).toString('hex'))
  const jobOf = (account: string, over: JobFields = {}): Job =>
    newJob({
      id: makeId(),
      account,
      messages: messagesOf(random),
      responseFormat: random(2) ? { format: 'text' } : { format: 'json', schema: { const: 'a\u0000"\\{}' } },
      cacheTtlMs: random(2) ? 300_000 : 500,
      createdAtMs: clock.ms,
      inputTokens: random(1_000_000_000),
      ...(random(2) && { priority: 'low' as const }),
      ...(random(2) && { deadlineMs: nowMs + DAY_MS }),
      ...(random(2) && { reserved: random(1000) }),
      ...over,
    })
  const expired: string[] = []
  const accept = (store: Store, jobs: readonly Job[], step: number, idempotency: Idempotency | null = null) =>
    store.accept({
      node: 'first',
      jobs: jobs.map((job) => ({ job, handedOff: false, step, awaited: false, route: '' })),
      idempotency,
      nowMs: clock.ms,
    })
  const addEnded = async (store: Store, job: Job, over: Partial<Parameters<typeof settlement>[1]> = {}) => {
    const claim = { jobId: job.id, attempt: 1 }
    const outcome = outcomeOf(random)
    const usage = {
      target: null,
      input_tokens: random(99),
      output_tokens: 5,
      calls: 2,
      cache_hit: !random(9),
      repaired: false,
      ...(random(2) && { cost: random(1000) }),
    }
    const receiptJson = JSON.stringify({ request: 'x'.repeat(random(300)), answer: '\ud800"\u0000' })
    await storeEnded(
      store,
      job,
      settlement(claim, { node: 'first', outcome, usage, receiptJson, nowMs: clock.ms, ...over }),
    )
  }

  const first = await openStore(url, options('first', clock))
  await makeAccounts(first, clock.ms)
  // These jobs finished ten days ago. They have expired, except for one with a pending callback.
  for (const account of ACCOUNTS) {
    const job = jobOf(account)
    expired.push(job.id)
    await addEnded(first, job)
  }
  const owedForLong = jobOf('acme', { callback: callbackOf(random) })
  await addEnded(first, owedForLong)
  const expiredKey = { key: 'old', fingerprint: 'f', untilMs: clock.ms + DAY_MS }
  const early = jobOf('bob')
  await accept(first, [early], 1000, expiredKey)
  const [claimed] = await claimNext(first, 'first', 1, clock.ms)
  if (claimed) await first.settle(settlement(claimOf(claimed), { node: 'first', nowMs: clock.ms }))
  expired.push(early.id)

  for (let made = 0; made < ENDED; made++) {
    clock.ms = nowMs - 6 * DAY_MS + Math.floor((made / ENDED) * 6 * DAY_MS)
    const callback = random(3) === 0 ? callbackOf(random) : null
    const keep = random(2) ? { fingerprint: `kept-${made}`, untilMs: clock.ms + HOUR_MS } : null
    const isLong = !random(30)
    const over = { callback, ...(isLong && { messages: [{ role: 'user', content: COMPRESSED }] as const }) }
    await addEnded(first, jobOf(oneOf(random, ACCOUNTS), over), { cache: keep })
  }
  // Most callbacks get one of these states. The others were not tried yet, or an attempt is in progress.
  clock.ms = nowMs - 60_000
  const take = { node: 'first', queue: 'first', limit: 200, nowMs: clock.ms } as const
  for (const { attempt, jobId } of await first.takeCallbacks({ ...take, leaseUntilMs: clock.ms + 30_000 })) {
    const kind = oneOf(random, ['delivered', 'failed', 'due', null] as const)
    if (kind === null || jobId === owedForLong.id) continue
    const next = kind === 'due' ? { kind, atMs: clock.ms + random(HOUR_MS), counts: true } : { kind }
    const made = { attempt, atMs: clock.ms, ms: 5, status: 503, error: null, answer: 'later' }
    await first.recordCallback({ jobId, attempt: made, next, nowMs: clock.ms })
  }
  const idempotency = { key: 'a key', fingerprint: 'asked', untilMs: nowMs + HOUR_MS }
  const repeatable = jobOf('acme')
  await accept(first, [repeatable], 1000, idempotency)
  for (let made = 0; made < WAITING; made++) {
    const jobs = Array.from({ length: 1 + random(4) }, () =>
      jobOf(oneOf(random, ACCOUNTS.slice(1)), {
        callback: random(3) ? null : callbackOf(random),
      }),
    )
    for (const job of jobs) await accept(first, [job], 100 * (1 + random(10)))
  }
  // Some jobs were started: they were released, were running when a node crashed, or are running now.
  const begun = await claimNext(first, 'first', 20, clock.ms)
  await first.release('first', begun.slice(0, 6).map(claimOf))
  const waits = { route: 'openai/m', earlierJson: '{"calls":3}', sinceMs: clock.ms, waitedMs: 5000 }
  await first.releaseWaiting(
    'first',
    begun.slice(6, 8).map((job) => ({ ...claimOf(job), ...waits })),
  )
  await first.close()
  await rescueFor(url, clock)
  const last = await openStore(url, options('last', clock))
  const held = await claimNext(last, 'last', 5, clock.ms)
  const kept = { fingerprint: 'kept', untilMs: nowMs + HOUR_MS }
  const [recent] = held
  if (recent) await last.settle(settlement(claimOf(recent), { node: 'last', cache: kept, nowMs: clock.ms }))
  const inputFileId = makeId()
  await addFile(last, inputFileId, clock.ms)
  await addBatch(last, { id: makeId(), inputFileId, jobId: recent?.id ?? '' }, clock.ms)
  await addReruns(last, [repeatable.id, owedForLong.id, early.id], clock.ms)
  await last.close()
  return {
    nowMs,
    retentionMs: RETENTION_MS,
    expired,
    keptFingerprint: kept.fingerprint,
    idempotencyKey: { ...idempotency, jobId: repeatable.id },
  }
}

async function addFile(store: Store, id: string, nowMs: number): Promise<void> {
  await store.beginFile({ id, account: 'acme', createdAtMs: nowMs }, 1)
  for (const [piece, length] of [PIECE_BYTES, 5].entries()) {
    await store.appendToFile(id, piece, randomBytes(length), nowMs)
  }
  await store.completeFile(id, { filename: 'ä.jsonl', purpose: 'batch', expiresAtMs: nowMs + HOUR_MS })
}

/** The first job becomes the rerun of the second. Reruns of the others are requested and rejected. */
async function addReruns(store: Store, jobIds: readonly string[], nowMs: number): Promise<void> {
  const request = { jobIds, withCallback: true, again: false, ofReruns: false, limit: 10, nowMs }
  for (const { id, jobId } of await store.requestReruns(request)) {
    const [rerunId = '', made, refused] = jobIds
    if (jobId === made) await store.endRerun(id, { rerunId, refusal: null }, nowMs)
    if (jobId === refused) await store.endRerun(id, { rerunId: null, refusal: 'no' }, nowMs)
  }
}

async function addBatch(
  store: Store,
  { id, inputFileId, jobId }: { readonly id: string; readonly inputFileId: string; readonly jobId: string },
  nowMs: number,
): Promise<void> {
  const batch = { account: 'acme', endpoint: '/v1/chat/completions', aboutJson: '{}', createdAtMs: nowMs }
  await store.createBatch({ id, inputFileId, ...batch, deadlineMs: nowMs + HOUR_MS }, 10)
  const [claimed] = await store.claimBatches('last', 10)
  await store.advanceBatch({
    batchId: id,
    node: 'last',
    version: claimed?.version ?? 0,
    status: 'in_progress',
    progressJson: '{"line":2}',
    started: [{ line: 2, customId: 'zweite Zeile', jobId }],
    endedJobIds: [],
    forgottenKeys: [],
    output: { fileId: inputFileId.replace(/.$/, '0'), content: Buffer.from('{"custom_id":"erste"}\n') },
    errors: { fileId: inputFileId.replace(/.$/, '1'), content: Buffer.from('{"custom_id":"dritte"}\n') },
    nowMs,
    end: null,
  })
  await store.cancelBatch('acme', id, nowMs)
  // This batch has ended, and its event is pending.
  const endedId = id.replace(/.$/, (digit) => (digit === '0' ? '1' : '0'))
  await store.createBatch({ id: endedId, inputFileId, ...batch, deadlineMs: nowMs + HOUR_MS }, 10)
  const [, ended] = (await store.claimBatches('last', 10)).sort((one) => (one.id === id ? -1 : 1))
  await store.advanceBatch({
    ...{ batchId: endedId, node: 'last', version: ended?.version ?? 0, status: 'failed', progressJson: '{}' },
    ...{ started: [], endedJobIds: [], forgottenKeys: [], output: null, errors: null, nowMs },
    end: {
      ...{ removeAtMs: nowMs + HOUR_MS, filesExpireAtMs: null, outputName: '', errorName: '' },
      callback: callbackText(
        eventTo('https://example.com/events', { of: 'batch', idPrefix: 'batch_', ending: 'failed' }),
      ),
    },
  })
}

async function rescueFor(url: string, clock: { ms: number }): Promise<void> {
  const store = await openStore(url, options('finder', clock))
  await store.rescue('finder', clock.ms)
  await store.close()
}

async function makeAccounts(store: Store, nowMs: number): Promise<void> {
  for (const [index, account] of ACCOUNTS.entries()) {
    for (const [kind, expiresAtMs] of [
      ['a', null],
      ['b', nowMs + index * DAY_MS],
    ] as const) {
      const id = `key_${account}_${kind}`
      const key = {
        id,
        hash: `hash of ${id}`,
        account,
        tier: 'user_max',
        secret: `whsec_${account}`,
      } as const
      const label = kind === 'b' ? `Ä key of ${account}` : null
      await store.createKey({ ...key, label, createdAtMs: nowMs, expiresAtMs })
    }
  }
  await store.revokeKey('key_bob_a', nowMs + 5)
  await store.noteKeyUses(['key_eve_a'], nowMs + 6)
  const token = { id: 'tok_1', name: 'Äda', hash: 'hash of tok_1', readOnly: true, createdAtMs: nowMs }
  await store.createAdminToken({ ...token, expiresAtMs: nowMs + 9 })
  const revoked = { id: 'tok_2', name: 'zoë', hash: 'hash of tok_2', readOnly: false, createdAtMs: nowMs }
  await store.createAdminToken({ ...revoked, expiresAtMs: null })
  await store.revokeAdminToken('tok_2', nowMs + 8)
  await store.rotateSecret('eve', 'whsec_new', nowMs + 7)
  await store.setTier('bob', 'user_free')
  await store.suspend('bob', nowMs + 9)
  await store.setWebhook('bob', 'https://example.com/events')
  await store.setCaps('eve', {
    monthlyJobs: 'none',
    monthlyTokens: 2 ** 40,
    openJobs: 9,
    storedBytes: 'none',
    monthlyCost: 10 ** 12,
  })
  const entry = { atMs: nowMs, who: 'zoë', what: 'set a tier', account: 'bob', target: null }
  await store.addAuditEntry({
    ...entry,
    id: '019a0000-0000-7000-8000-000000000001',
    detailsJson: '{"nul":"\\u0000"}',
  })
  await store.addAuditEntry({
    ...entry,
    id: '019a0000-0000-7000-8000-000000000002',
    target: 'key_bob_b',
    detailsJson: '{}',
  })
  await store.endAuditEntry('019a0000-0000-7000-8000-000000000001', 'done')
}

export function options(node: string, clock: { readonly ms: number }): OpenOptions {
  return {
    node,
    connections: 3,
    prepare: true,
    statementMs: 15_000,
    maxQueued: 10_000,
    retentionMs: RETENTION_MS,
    nowMs: () => clock.ms,
    onNote: () => {},
    onFatal: (error) => {
      throw error
    },
  }
}

type Random = (below: number) => number

/** A linear congruential generator is good enough for varying data. The same seed results in the same numbers. */
function randomFrom(seed: number): Random {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

function oneOf<T>(random: Random, values: readonly T[]): T {
  return values[random(values.length)] as T
}

function messagesOf(random: Random): Message[] {
  const texts = [
    '',
    'Hello',
    'nul \u0000 here',
    'half \ud800 pair',
    '😀 "\\\n{},NULL',
    'long '.repeat(random(400)),
  ]
  return Array.from({ length: 1 + random(3) }, () => ({ role: 'user', content: oneOf(random, texts) }))
}

function outcomeOf(random: Random): Outcome {
  if (random(3))
    return {
      status: 'completed',
      contentJson: oneOf(random, [
        '"nul \\u0000"',
        '{"n":12345678901234567890}',
        '"\\ud800"',
        random(30) ? '""' : JSON.stringify(COMPRESSED),
      ]),
    }
  return {
    status: 'failed',
    error: {
      code: 'validation_error',
      message: 'It broke its schema.',
      errors: ['a\u0000'],
      raw_text: '"{\\',
    },
  }
}

function callbackOf(random: Random): Callback {
  return {
    url: `https://hooks.example/${random(9)}`,
    headers: { 'x-tag': 'ä "\\' },
    payloadJson: oneOf(random, ['9223372036854775807', '1e400', '{"a":"\\u0000"}', 'null']),
  }
}
