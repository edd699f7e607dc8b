/** Simulates batches: submits them as callers, creates the batch runner of a process, and checks each line at the end. */
import { BatchRunner } from '../../src/batches/batch-runner.ts'
import { LineStarts } from '../../src/batches/line-starts.ts'
import { jobIdMaker } from '../../src/job/job-id.ts'
import type { JobCreator } from '../../src/queue/job-creator.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { errorFields } from '../../src/telemetry/log.ts'
import { BatchLines } from '../../src/v1/batch-lines.ts'
import { readBatchLine } from '../../src/v1/read-body.ts'
import type { KnownRequest, Ledger } from './ledger.ts'
import type { FileRow, MemoryDatabase } from './memory-store/database.ts'
import { runningProcess, type SimulatedNode, type SimulatedProcess, type Surroundings } from './node.ts'
import { accountOf, type JobPlan, LEASE_MS, type Step } from './plan.ts'

type StepOf<Kind extends Step['kind']> = Extract<Step, { readonly kind: Kind }>

const CHAT = '/v1/chat/completions'
const YEAR_MS = 31_536_000_000
const ENDS = 'each line of a batch ends once'
const NO_LIMITS = { payloadBytes: 1e9, schemaBytes: 1e9 }
const MAX_OPEN = 100
/** The result of a line has at most this many bytes. */
const RESULT_BYTES = 2000

export interface KnownBatch {
  readonly id: string
  readonly account: string
  readonly lines: readonly JobPlan[]
  readonly mostBytes: number
  isCancelled: boolean
  /** Maps lines to job IDs. A line may have several jobs here, because a runner may fail after it has created one. */
  readonly jobs: Map<string, Set<string>>
}

/** The ledger learns of every job before the runner creates the job. */
export function batchRunnerOf(process: SimulatedProcess, { ledger, world }: Surroundings): BatchRunner {
  const { store, clock, engine, id } = process
  const { creator, tiers } = engine
  const accept: JobCreator['accept'] = async (admitted, waitMs) => {
    const { owner, jobs, idempotency } = admitted
    const [, batchId = '', line = ''] = idempotency?.key.split(' ') ?? []
    const batch = ledger.batches.get(batchId)
    const wanted = batch?.lines[Number(line) - 1]
    if (batch === undefined || wanted === undefined)
      throw new Error(`the line ${line} of ${batchId} is unknown`)
    const request = ledger.newRequest(owner.account, [wanted], false, null)
    const ids = jobs.map((job) => job.id)
    ledger.newJobs(request, ids)
    batch.jobs.set(line, new Set([...(batch.jobs.get(line) ?? []), ...ids]))
    if (batch.isCancelled) cancelJobs(ledger, batch)
    const attempt = ledger.limits.begin(request, id)
    ledger.limits.reserve(attempt, jobs)
    try {
      const result = await creator.accept(admitted, waitMs)
      if (result.kind === 'accepted') markAccepted(ledger, request, ids)
      return result
    } finally {
      ledger.limits.end(attempt)
    }
  }
  return new BatchRunner({
    store,
    node: id,
    clock,
    format: new BatchLines({
      store,
      limits: NO_LIMITS,
      maxDepth: 100,
      usesCache: () => false,
      readLarge: async (line) => readBatchLine(line),
    }),
    starts: new LineStarts({
      store,
      creator: { admit: creator.admit.bind(creator), accept },
      tiers,
      countTokens: () => () => Promise.reject(new Error('the tokens of a line were counted')),
    }),
    makeId: jobIdMaker(clock, world.random.hex),
    maxLineBytes: 1_000_000,
    maxLinesOf: () => 1000,
    retentionMs: YEAR_MS,
    idleClaimMs: LEASE_MS / 3,
    onCancelled: (jobId) => engine.cancellation.cancelled(jobId),
    onAdvanced: () => {},
    onError: (error) => {
      const { stack, error_name: name } = errorFields(error)
      world.note(`a step of a batch failed: ${String(error)}`)
      if (stack !== undefined && name !== 'WriteRejected') ledger.violate('no bug is logged', String(stack))
    },
  })
}

function markAccepted(ledger: Ledger, request: KnownRequest, ids: readonly string[]): void {
  request.answers.push(...ids)
  for (const id of ids) {
    const job = ledger.jobs.get(id)
    if (job !== undefined) job.isAccepted = true
  }
}

function cancelJobs(ledger: Ledger, { jobs }: KnownBatch): void {
  for (const id of [...jobs.values()].flatMap((ids) => [...ids])) {
    const job = ledger.jobs.get(id)
    if (job !== undefined && !job.wasCancelled) ledger.cancels(job)
  }
}

/** Uploads a file and creates a batch from it. Neither is repeated after a failure. */
export function submitBatch(
  { world, ledger, nodes }: Surroundings & { readonly nodes: readonly SimulatedNode[] },
  { account: which, node, lines, windowMs }: StepOf<'submit batch'>,
): void {
  const account = accountOf(which)
  send(nodes, node, { world, ledger }, `batch of ${account}`, async (process) => {
    const { store, clock } = process
    const makeId = jobIdMaker(clock, world.random.hex)
    const [fileId, id] = [makeId(), makeId()]
    const content = Buffer.from(lines.map((line, at) => lineOf(line, at)).join('\n'))
    const createdAtMs = clock.nowMs()
    const mostBytes = content.length + lines.length * RESULT_BYTES
    ledger.batches.set(id, { id, account, lines, mostBytes, isCancelled: false, jobs: new Map() })
    await store.beginFile({ id: fileId, account, createdAtMs }, 1000)
    await store.appendToFile(fileId, 0, content, createdAtMs)
    const about = { filename: 'a', purpose: 'batch', expiresAtMs: createdAtMs + YEAR_MS }
    if ((await store.completeFile(fileId, about)) === null) return
    const aboutJson = JSON.stringify({
      metadata: null,
      window: '24h',
      filesExpireS: null,
      inputBytes: content.length,
    })
    const batch = { id, account, inputFileId: fileId, endpoint: CHAT, aboutJson, createdAtMs }
    await store.createBatch({ ...batch, deadlineMs: createdAtMs + windowMs }, MAX_OPEN)
    process.batches?.wake()
  })
}

export function cancelBatch(
  { world, ledger, nodes }: Surroundings & { readonly nodes: readonly SimulatedNode[] },
  { batch: which, node }: StepOf<'cancel batch'>,
): void {
  const batches = [...ledger.batches.values()]
  const batch = batches[which % batches.length]
  if (batch === undefined) return
  send(nodes, node, { world, ledger }, `cancel of the batch ${batch.id}`, async (process) => {
    batch.isCancelled = true
    cancelJobs(ledger, batch)
    await process.store.cancelBatch(batch.account, batch.id, process.clock.nowMs())
    process.batches?.wake()
  })
}

function send(
  nodes: readonly SimulatedNode[],
  node: number,
  { world, ledger }: Pick<Surroundings, 'world' | 'ledger'>,
  label: string,
  work: (process: SimulatedProcess) => Promise<void>,
): void {
  const process = runningProcess(nodes, node)
  if (process === null) return
  const run = () =>
    void process.front
      .serve(() => work(process))
      .catch((error) => {
        if (!(error instanceof StoreUnavailable))
          ledger.violate('no request hits a bug', String(error?.stack))
      })
  world.after(world.random.next() * 2, `${label} at ${process.id}`, run, process.main)
}

function lineOf({ tag, model, size }: JobPlan, at: number): string {
  const body = { model, messages: [{ role: 'user', content: `${tag} ${'x'.repeat(size)}` }] }
  return JSON.stringify({ custom_id: `${at + 1}`, method: 'POST', url: CHAT, body })
}

/** Batches of accounts that operators have deleted do not count. */
export function openBatches(db: MemoryDatabase, ledger: Ledger): number {
  const open = [...db.batches.values()].filter(({ removeAtMs }) => removeAtMs === null)
  return open.filter(({ account }) => !ledger.deletedAccounts.has(account)).length
}

export function checkBatches(db: MemoryDatabase, ledger: Ledger): void {
  for (const row of db.batches.values()) {
    const batch = ledger.batches.get(row.id)
    if (batch === undefined || ledger.deletedAccounts.has(row.account)) continue
    const output = resultsIn(row.outputFileId === null ? undefined : db.files.get(row.outputFileId))
    const errors = resultsIn(row.errorFileId === null ? undefined : db.files.get(row.errorFileId))
    const ids = [...output, ...errors].map(({ custom_id }) => custom_id).sort()
    const expected = batch.lines.map((_, at) => `${at + 1}`).sort()
    const isUnread = row.status === 'cancelled' && JSON.parse(row.progressJson).total === 0
    const isRight = ids.join() === (isUnread ? [] : expected).join()
    if (!isRight || row.status === 'failed') {
      ledger.violate(ENDS, `${row.id} is ${row.status}: ${ids.join(' ')} of ${expected.length}`)
    }
    for (const { custom_id: id, response } of output) {
      const { tag, manner } = batch.lines[Number(id) - 1] ?? { tag: '' }
      if (manner !== 'refuse' && !JSON.stringify(response).includes(`answer to ${tag} for ${row.account}`))
        ledger.violate('accounts are isolated', `line ${id} of ${row.id} got ${JSON.stringify(response)}`)
    }
    for (const { custom_id: id, error } of errors) checkError(ledger, batch, id, error?.code)
    for (const [line, jobs] of batch.jobs) {
      const stored = [...jobs].filter((id) => db.jobs.has(id))
      if (stored.length > 1)
        ledger.violate('a line has one job', `line ${line} of ${row.id}: ${stored.join(' ')}`)
    }
  }
}

function checkError(ledger: Ledger, batch: KnownBatch, line: string, code: string | undefined): void {
  const jobs = [...(batch.jobs.get(line) ?? [])].flatMap((id) => ledger.jobs.get(id) ?? [])
  const isDeleted = jobs.some(({ wasDeleted }) => wasDeleted)
  if (code === 'job_deleted' && !isDeleted)
    ledger.violate('a result is taken before its job is deleted', `line ${line} of ${batch.id}`)
  if (code === 'batch_cancelled' && !batch.isCancelled)
    ledger.violate('only callers cancel batches', `line ${line} of ${batch.id}`)
}

interface LineOfFile {
  readonly custom_id: string
  readonly response: unknown
  readonly error: { readonly code: string } | null
}

function resultsIn(file: FileRow | undefined): readonly LineOfFile[] {
  if (file === undefined) return []
  const text = Buffer.concat(file.pieces).toString().trimEnd()
  return text === '' ? [] : text.split('\n').map((line) => JSON.parse(line))
}
