/** Contains the life of a job in the reference store: accept, settle, release, rescue, cancel, delete, expire, read. */
import { sumOfCosts } from '../../../src/job/amount.ts'
import { costOfInput } from '../../../src/job/cost.ts'
import { errorJson, type Job, NO_USAGE, type Usage } from '../../../src/job/job.ts'
import { leastJobId } from '../../../src/job/job-id.ts'
import type { JobRecord } from '../../../src/job/job-record.ts'
import { monthOf } from '../../../src/job/month.ts'
import {
  CACHE_HIT_RECEIPT_JSON,
  CACHE_HIT_USAGE,
  CANCELLED_ERROR_JSON,
  CANCELLED_RECEIPT_JSON,
  cancelledErrorJson,
  FREE_CACHE_HIT_USAGE,
  receiptOfEarlier,
  usageOfCancelled,
} from '../../../src/job/results-without-call.ts'
import type { Expiry } from '../../../src/store/expiry.ts'
import { type Claim, MAX_CANCELLED } from '../../../src/store/node-store.ts'
import {
  type Acceptance,
  type Accepted,
  type AnsweredJob,
  type Earlier,
  type EndedJob,
  type FailedJob,
  type Idempotency,
  type NewJob,
  type OverCostCap,
  type Overdue,
  type Settlement,
  UnknownAccount,
  WriteRejected,
} from '../../../src/store/store.ts'
import { outcomeBytes } from '../../../src/store/stored-bytes.ts'
import {
  hasExpired,
  isJob,
  type JobRow,
  type MemoryDatabase,
  type OutcomeRow,
  type UsageRow,
} from './database.ts'
import { define } from './operations.ts'

const STEP = 400

export function jobOperations(db: MemoryDatabase) {
  return define({
    accept: (acceptance) => accept(db, acceptance),

    findEarlier: (account, idempotency, nowMs) => findEarlier(db, account, idempotency, nowMs),

    settle(settlement) {
      const row = db.jobs.get(settlement.jobId)
      if (row === undefined) return 'gone'
      if (!isHeld(row, settlement.node, settlement)) return 'stale'
      checkSettlement(settlement)
      end(db, row, outcomeOf(settlement), settlement)
      return 'settled'
    },

    release(node, claims) {
      for (const claim of claims) {
        const row = db.jobs.get(claim.jobId)
        if (row && isHeld(row, node, claim)) returnToQueue(db, row)
      }
    },

    releaseWaiting(node, releases) {
      for (const { route, earlierJson, sinceMs: waitsSinceMs, waitedMs, ...claim } of releases) {
        const row = db.jobs.get(claim.jobId)
        if (!row || !isHeld(row, node, claim)) continue
        Object.assign(row, { route, earlierJson, waitsSinceMs, waitedMs })
        returnToQueue(db, row)
      }
    },

    failOverdue: (overdue, nowMs, limit) => failOverdue(db, overdue, nowMs, limit),

    rescue: (node, nowMs) => rescue(db, node, nowMs),

    findResponse: (fingerprint, nowMs) => findResponse(db, fingerprint, nowMs),

    read(account, jobId, expiry, maxBytes = Number.POSITIVE_INFINITY) {
      const row = db.readable(jobId, expiry)
      if (row === null || row.job.account !== account) return null
      const bytes = resultBytes(row)
      const record = recordOf(row)
      if (bytes <= maxBytes) return { ...record, omittedBytes: 0 }
      return { ...record, contentJson: null, errorJson: null, omittedBytes: bytes }
    },

    readEnded(jobIds, maxBytes = Number.POSITIVE_INFINITY) {
      const ended: EndedJob[] = []
      let left = maxBytes
      for (const row of jobIds.map((id) => db.jobs.get(id))) {
        if (!row?.outcome) continue
        left -= resultBytes(row)
        if (left < 0 && ended.length > 0) break
        ended.push({ ...recordOf(row), cacheHit: row.outcome.usage.cache_hit })
      }
      return ended
    },

    findMissing: (jobIds) => jobIds.filter((jobId) => !db.jobs.has(jobId)),

    expire: (expiry) => expire(db, expiry),

    queueDepths: () => {
      const routes = Map.groupBy(db.queued(), ({ route }) => route)
      return [...routes].map(([route, rows]) => {
        const ids = rows.map(({ job }) => job.id).sort()
        return { route, jobs: rows.length, oldestId: ids[0] ?? '' }
      })
    },

    depth() {
      const queued = db.queued()
      const oldest = Math.min(...queued.map(({ job }) => job.createdAtMs))
      return {
        waiting: queued.length,
        oldestCreatedAtMs: queued.length === 0 ? null : oldest,
        assigned: [...db.open].filter(({ node }) => node !== null).length,
      }
    },

    claimsOf: (node) =>
      [...db.open].filter((row) => row.node === node).map(({ job, attempt }) => ({ jobId: job.id, attempt })),

    cancelJob(jobId, nowMs) {
      const row = db.jobs.get(jobId)
      if (row === undefined) return 'unknown'
      if (row.outcome !== null) return 'ended before'
      cancel(db, row, nowMs, CANCELLED_ERROR_JSON, NO_USAGE)
      return 'cancelled'
    },

    cancelOwnJob({ account, jobId, nowMs, inputTokens: counted, inputPrices }) {
      const row = db.jobs.get(jobId)
      if (row?.job.account !== account) return 'unknown'
      if (row.outcome !== null) return 'ended before'
      const inputTokens = counted ?? row.job.inputTokens
      const price = inputPrices?.get(row.job.model)
      const usageJson = usageOfCancelled({
        isHeld: row.node !== null,
        inputTokens,
        inputCost:
          price === undefined ? (row.job.reserved === undefined ? null : 0) : costOfInput(price, inputTokens),
        earlierJson: row.earlierJson,
      })
      cancel(db, row, nowMs, cancelledErrorJson('caller'), JSON.parse(usageJson))
      return 'cancelled'
    },

    heldMessages(account, jobId, maxBytes) {
      const row = db.jobs.get(jobId)
      if (row?.job.account !== account || row.node === null || row.outcome !== null) return null
      const { messagesJson } = row.job
      return Buffer.byteLength(messagesJson) <= maxBytes ? messagesJson : null
    },

    readRequest({ account, jobId, expiry, messageChars }) {
      const row = db.jobs.get(jobId)
      if (row?.job.account !== account || hasExpired(row, expiry)) return null
      const { model, responseFormatJson, messagesJson } = row.job
      const messagesStart = Array.from(messagesJson).slice(0, messageChars).join('')
      return { model, responseFormatJson, messagesStart, messageBytes: Buffer.byteLength(messagesJson) }
    },

    cancelJobs({ account, running, beforeJobId, limit, nowMs }) {
      const rows = [...db.queued(), ...[...db.open].filter(({ node }) => running && node !== null)]
        .filter(({ job }) => job.account === account && job.id < beforeJobId)
        .slice(0, limit)
      for (const row of rows) cancel(db, row, nowMs, CANCELLED_ERROR_JSON, NO_USAGE)
      return rows.length
    },

    takeCancelled(node) {
      const mine = db.cancelled
        .filter((row) => row.node === null || row.node === node)
        .slice(0, MAX_CANCELLED)
      db.cancelled = db.cancelled.filter((row) => !mine.includes(row))
      return mine.map(({ jobId, attempt }) => ({ jobId, attempt }))
    },

    deleteJob(jobId) {
      const row = db.jobs.get(jobId)
      if (row === undefined || !isJob(row)) return 'unknown'
      if (row.outcome === null) return 'not ended'
      db.delete(row)
      return 'deleted'
    },

    deleteOwnJob({ account, jobId, dropCallback, expiry }) {
      const row = db.jobs.get(jobId)
      if (row?.job.account !== account || hasExpired(row, expiry)) return 'unknown'
      if (row.outcome === null) return 'not ended'
      if (row.callback !== null && row.callback.dueAtMs !== null && !dropCallback) return 'callback owed'
      db.delete(row)
      return 'deleted'
    },

    deleteJobsOf(account, afterJobId) {
      const rows = [...db.jobs.values()].filter(({ job }) => job.id > afterJobId)
      const some = rows.sort((one, other) => (one.job.id < other.job.id ? -1 : 1)).slice(0, STEP)
      const ofAccount = some.filter(({ job }) => job.account === account)
      const ended = ofAccount.filter(({ outcome }) => outcome !== null)
      for (const row of ended) db.delete(row)
      return {
        deleted: ended.length,
        open: ofAccount.length - ended.length,
        next: some.length === STEP ? (some.at(-1)?.job.id ?? null) : null,
      }
    },
  })
}

function accept(db: MemoryDatabase, { node, jobs, idempotency, nowMs, costCap }: Acceptance): Accepted {
  const account = jobs[0]?.job.account ?? ''
  const earlier = idempotency && findEarlier(db, account, idempotency, nowMs)
  if (earlier) return earlier
  const ids = jobs.map(({ job }) => job.id)
  if (new Set(ids).size < ids.length || ids.some((id) => db.jobs.has(id))) {
    throw new WriteRejected('a job of this id exists')
  }
  if (!db.accounts.has(account)) throw new UnknownAccount()
  if (costCap !== undefined) {
    const over = overCostCap(db, account, jobs, nowMs, costCap)
    if (over) return over
  }
  const answered: AnsweredJob[] = []
  for (const newJob of jobs) {
    const contentJson = newJob.fingerprint ? findResponse(db, newJob.fingerprint, nowMs) : null
    const row = store(db, node, nowMs, newJob, contentJson)
    if (contentJson === null) continue
    const outcome = {
      contentJson,
      errorJson: null,
      usage: newJob.job.reserved === undefined ? CACHE_HIT_USAGE : FREE_CACHE_HIT_USAGE,
      receiptJson: CACHE_HIT_RECEIPT_JSON,
    }
    end(db, row, outcome, { nowMs, cache: null })
    answered.push({ jobId: newJob.job.id, contentJson: newJob.awaited ? contentJson : null })
  }
  if (idempotency) db.idempotency.set(keyOf(account, idempotency), { ...idempotency, account, jobIds: ids })
  return answered.length === 0 ? { kind: 'accepted' } : { kind: 'accepted', answered }
}

function overCostCap(
  db: MemoryDatabase,
  account: string,
  jobs: readonly NewJob[],
  nowMs: number,
  cap: number,
): OverCostCap | null {
  let added = 0
  for (const { job, fingerprint } of jobs) {
    if (!fingerprint || findResponse(db, fingerprint, nowMs) === null) added += job.reserved ?? 0
  }
  const used = costUsed(db, account, nowMs)
  return added > 0 && used + added > cap ? { kind: 'over cost cap', used } : null
}

function findEarlier(
  db: MemoryDatabase,
  account: string,
  idempotency: Idempotency,
  nowMs: number,
): Earlier | null {
  const earlier = db.idempotency.get(keyOf(account, idempotency))
  if (earlier === undefined || earlier.untilMs <= nowMs) return null
  const { fingerprint, jobIds } = earlier
  if (fingerprint !== idempotency.fingerprint) return { kind: 'conflict' }
  // If none of the request's jobs exists any more, the request is accepted again.
  return jobIds.some((id) => db.jobs.has(id)) ? { kind: 'repeated', jobIds } : null
}

function keyOf(account: string, { key }: Pick<Idempotency, 'key'>): string {
  return `${account}\n${key}`
}

function findResponse(db: MemoryDatabase, fingerprint: string, nowMs: number): string | null {
  const cached = db.cachedResponses.get(fingerprint)?.findLast(({ untilMs }) => untilMs > nowMs)
  if (cached === undefined) return null
  return db.jobs.get(cached.jobId)?.outcome?.contentJson ?? null
}

/** @param contentJson the cached response that completes the job, or null */
function store(
  db: MemoryDatabase,
  node: string,
  nowMs: number,
  newJob: NewJob,
  contentJson: string | null,
): JobRow {
  const { job, handedOff, step, route, awaited } = newJob
  const row = newRow(job, awaited ? node : null)
  row.route = route
  if (contentJson !== null) Object.assign(row, { attempt: 1, claimedAtMs: job.createdAtMs })
  else if (handedOff) Object.assign(row, { status: 'assigned', node, attempt: 1, claimedAtMs: nowMs })
  else {
    row.turn = db.nextTurn(job.account, route, step)
    db.joined(route, row.turn)
  }
  db.jobs.set(job.id, row)
  db.open.add(row)
  return row
}

export function newRow(job: Job, origin: string | null): JobRow {
  return {
    job,
    status: 'pending',
    turn: null,
    node: null,
    attempt: 0,
    crashCount: 0,
    crashedAlone: false,
    startedAttempt: 0,
    claimedAtMs: null,
    settledAtMs: null,
    route: '',
    earlierJson: null,
    waitsSinceMs: null,
    waitedMs: 0,
    origin,
    outcome: null,
    callback: null,
  }
}

export function owe(db: MemoryDatabase, row: JobRow, nowMs: number): void {
  row.callback = {
    isRetry: false,
    attempt: 0,
    tries: 0,
    owedSinceMs: nowMs,
    dueAtMs: nowMs,
    node: null,
    isInProgress: false,
    deliveredAtMs: null,
    failedAtMs: null,
    attempts: [],
  }
  db.owed.add(row)
}

function isHeld(row: JobRow, node: string, { attempt }: Claim): boolean {
  return row.outcome === null && row.node === node && row.attempt === attempt
}

/** Both real stores reject a time that is not a whole number of milliseconds. */
function checkSettlement({ nowMs, jobId }: Settlement): void {
  if (!Number.isInteger(nowMs)) throw new WriteRejected(`the settlement of ${jobId} has no whole time`)
}

function outcomeOf({ outcome, usage, receiptJson }: Settlement): OutcomeRow {
  return {
    contentJson: outcome.status === 'completed' ? outcome.contentJson : null,
    errorJson: outcome.status === 'failed' ? errorJson(outcome.error) : null,
    usage,
    receiptJson,
  }
}

function end(
  db: MemoryDatabase,
  row: JobRow,
  outcome: OutcomeRow,
  { nowMs, cache }: Pick<Settlement, 'nowMs' | 'cache'>,
): void {
  const { job } = row
  const status = outcome.errorJson === null ? 'completed' : 'failed'
  Object.assign(row, { status, turn: null, node: null, settledAtMs: nowMs, outcome })
  db.open.delete(row)
  if (cache) db.addCachedResponse(cache.fingerprint, { jobId: job.id, untilMs: cache.untilMs })
  if (job.callbackJson !== null) owe(db, row, nowMs)
  addUsage(db, row, outcome, nowMs)
}

function addUsage(db: MemoryDatabase, { job, status }: JobRow, { usage }: OutcomeRow, nowMs: number): void {
  const { account, model } = job
  const key = { account, month: monthOf(nowMs), model }
  const name = Object.values(key).join('\n')
  const none = {
    ...key,
    jobs: 0,
    failedJobs: 0,
    cacheHits: 0,
    calls: 0,
    inputTokens: 0,
    outputTokens: 0,
  }
  const sums: UsageRow = db.usage.get(name) ?? none
  db.usage.set(name, sums)
  sums.jobs += 1
  if (status === 'failed') sums.failedJobs += 1
  if (usage.cache_hit) sums.cacheHits += 1
  sums.calls += usage.calls
  sums.inputTokens = Math.min(sums.inputTokens + usage.input_tokens, Number.MAX_SAFE_INTEGER)
  sums.outputTokens = Math.min(sums.outputTokens + usage.output_tokens, Number.MAX_SAFE_INTEGER)
  if (usage.cost !== undefined) sums.cost = sumOfCosts(sums.cost ?? 0, usage.cost)
}

function returnToQueue(db: MemoryDatabase, row: JobRow): void {
  const turn = db.headTurn(row.route)
  Object.assign(row, { node: null, turn })
  db.joined(row.route, turn)
}

function failOverdue(
  db: MemoryDatabase,
  overdue: Overdue,
  nowMs: number,
  limit: number,
): readonly FailedJob[] {
  const { error } = overdue
  const isOverdue = (row: JobRow) => {
    if (overdue.route === null) return row.job.deadlineMs !== undefined && row.job.deadlineMs <= nowMs
    const { route, account, unavailableSinceMs, patienceMs } = overdue
    const beforeMs = nowMs - patienceMs
    if (row.route !== route || (account !== null && row.job.account !== account)) return false
    if (row.waitsSinceMs !== null)
      return Math.max(row.waitsSinceMs, unavailableSinceMs) - row.waitedMs <= beforeMs
    return row.job.id < leastJobId(beforeMs) && unavailableSinceMs <= beforeMs
  }
  const rows = db
    .queued()
    .filter((row) => db.mayTake(row.job.id) && isOverdue(row))
    .slice(0, limit)
  return rows.map((row) => {
    const { id: jobId, account, model, createdAtMs, callbackJson } = row.job
    const earlier = JSON.parse(row.earlierJson ?? '{}')
    const { calls = 0, inputTokens = 0, outputTokens = 0, records = [], format, repair } = earlier
    const cost = earlier.cost ?? (row.job.reserved === undefined ? undefined : 0)
    const tokens = { calls, input_tokens: inputTokens, output_tokens: outputTokens }
    const usage = { ...NO_USAGE, ...tokens, ...(cost !== undefined && { cost }) }
    const receiptJson = JSON.stringify(receiptOfEarlier({ calls, records, format, repair }))
    end(
      db,
      row,
      { contentJson: null, errorJson: errorJson(error), usage, receiptJson },
      { nowMs, cache: null },
    )
    return { jobId, account, model, createdAtMs, hasCallback: callbackJson !== null, usage }
  })
}

function rescue(db: MemoryDatabase, node: string, nowMs: number): number {
  const isDead = (other: string | null): other is string =>
    other !== null && other !== node && !(db.shared && db.hasLease(other))
  const lost = [...db.open].filter((row) => isDead(row.node))
  const hasStarted = ({ crashCount, startedAttempt, attempt }: JobRow) =>
    crashCount > 0 && startedAttempt === attempt
  const counted = lost
    .filter((row) => row.crashCount === 0 || hasStarted(row))
    .map((row) => ({ ...row, row }))
  for (const { row, node: deadNode, crashCount } of counted) {
    const ofNode = counted.filter((one) => one.node === deadNode)
    const suspects = ofNode.filter(hasStarted)
    row.crashedAlone = (crashCount === 0 ? ofNode : suspects).length === 1
    row.crashCount += 1
    if (!db.shared || deadNode === null) continue
    db.crashes.push({ jobId: row.job.id, node: deadNode, countedAtMs: db.clockMs(), confirmed: false })
  }
  for (const row of lost) returnToQueue(db, row)
  for (const { callback } of db.owed) {
    if (callback === null || !isDead(callback.node)) continue
    Object.assign(callback, {
      node: null,
      isInProgress: false,
      dueAtMs: Math.min(callback.dueAtMs ?? nowMs, nowMs),
    })
  }
  for (const other of [...db.leases.keys()]) if (isDead(other)) db.leases.delete(other)
  return lost.length
}

function cancel(db: MemoryDatabase, row: JobRow, nowMs: number, errorJson: string, usage: Usage): void {
  const claim = { jobId: row.job.id, attempt: row.attempt }
  const nodes = db.shared ? new Set([row.node, row.origin].filter((node) => node !== null)) : [null]
  for (const node of nodes) db.cancelled.push({ ...claim, node })
  const outcome = {
    contentJson: null,
    errorJson,
    usage: row.job.reserved === undefined ? usage : { cost: 0, ...usage },
    receiptJson: CANCELLED_RECEIPT_JSON,
  }
  end(db, row, outcome, { nowMs, cache: null })
}

function expire(db: MemoryDatabase, expiry: Expiry): boolean {
  for (const { id, removeAtMs } of db.batches.values()) {
    if (removeAtMs !== null && removeAtMs <= expiry.nowMs) db.batches.delete(id)
  }
  const { nowMs } = expiry
  db.dropCachedResponses(({ untilMs }) => untilMs <= nowMs)
  const keys = [...db.idempotency].filter(([, { untilMs }]) => untilMs <= nowMs)
  keys.sort(([, one], [, other]) => one.untilMs - other.untilMs)
  for (const [name] of keys.slice(0, STEP)) db.idempotency.delete(name)
  db.crashes = db.crashes.filter(({ jobId }) => db.jobs.get(jobId)?.outcome === null)
  const expired: JobRow[] = []
  const ofLines = new Set([...db.batches.values()].flatMap(({ lines }) => lines.map(({ jobId }) => jobId)))
  for (const row of db.jobs.values()) {
    const isTaken = hasExpired(row, expiry) && !ofLines.has(row.job.id) && db.mayTake(row.job.id)
    if (expired.length < STEP && isTaken) expired.push(row)
  }
  for (const row of expired) db.delete(row)
  return expired.length === STEP || keys.length >= STEP
}

function resultBytes({ outcome }: JobRow): number {
  return outcome === null ? 0 : outcomeBytes(outcome.contentJson, outcome.errorJson, '')
}

export function recordOf({ job, status, outcome }: JobRow): JobRecord {
  return {
    id: job.id,
    status,
    createdAtMs: job.createdAtMs,
    contentJson: outcome?.contentJson ?? null,
    errorJson: outcome?.errorJson ?? null,
    usageJson: outcome && JSON.stringify(outcome.usage),
  }
}

/** Returns the account's cost of the month: that of its ended jobs, and what its open ones have reserved. */
function costUsed(db: MemoryDatabase, account: string, nowMs: number): number {
  let used = 0
  for (const row of db.usage.values()) {
    if (row.account === account && row.month === monthOf(nowMs)) used += row.cost ?? 0
  }
  for (const { job } of db.open) if (job.account === account) used += job.reserved ?? 0
  return used
}
