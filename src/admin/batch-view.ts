/** Defines what operators see of batches of OpenAI's API, and converts records of the store. Times are Unix seconds. */
import { aboutOf, isLarge, progressOf } from '../batches/progress.ts'
import { BATCH_PREFIX } from '../job/job-id.ts'
import { type BatchLine, ENDED_STATUSES, OPEN_STATUSES, type StoredBatch } from '../store/batch-store.ts'
import type { StoredFile } from '../store/file-store.ts'
import { type Static, Type } from '../typed-schema.ts'
import { count, more, next, orNull, seconds, textOrNull, unixTime, unixTimeOrNull } from './fields.ts'

const text = Type.String()
const problem = { code: text, message: text }

const batchFields = {
  batch_id: Type.String({ description: 'Begins with `batch_`.' }),
  account: text,
  status: Type.Enum([...OPEN_STATUSES, ...ENDED_STATUSES], {
    description:
      '`validating`: its lines are being checked. `failed`: a line is wrong, or the input file was deleted; `expired`: it ran out of time.',
  }),
  endpoint: text,
  created_at: unixTime('When it was created'),
  in_progress_at: unixTimeOrNull('When its lines were valid and began to run'),
  cancelling_at: unixTimeOrNull('When it was cancelled'),
  ended_at: unixTimeOrNull('When it ended'),
  deadline: unixTime('When lines that have not ended become errors'),
  lines: Type.Object(
    { total: count, completed: count, failed: count },
    { description: '`total` is 0 until they were checked.' },
  ),
  lines_per_second: orNull(
    Type.Number({
      description: 'The rate since the lines began to run; null before the first has finished.',
    }),
  ),
  estimated_end: unixTimeOrNull('When it will end at this rate; null unless lines are running'),
  waiting: orNull(Type.Object(problem, { description: 'Why no further lines start for now.' })),
  usage: Type.Object(
    {
      input_tokens: count,
      cached_input_tokens: count,
      output_tokens: count,
      cost: Type.Optional(
        Type.Integer({ description: 'In millionths of the currency; absent if no model has a price.' }),
      ),
    },
    { description: 'The usage of the finished lines.' },
  ),
}
const batchSummary = Type.Object(batchFields)
export type BatchSummary = Static<typeof batchSummary>

export const batchList = Type.Object({
  batches: Type.Array(batchSummary, { description: 'Newest first.' }),
  more,
  next: next('before'),
})
export type BatchList = Static<typeof batchList>

const batchFile = Type.Object({ file_id: text, filename: text, bytes: count })
export type BatchFile = Static<typeof batchFile>

export const batchDetails = Type.Object({
  ...batchFields,
  metadata: Type.Record(text, { description: 'The labels that its account gave it.' }),
  problems: Type.Array(
    Type.Object({ ...problem, line: orNull(count), param: textOrNull('The wrong field.') }),
    {
      description: 'What is wrong with it, by line.',
    },
  ),
  running: Type.Object(
    {
      total: count,
      first: Type.Array(Type.Object({ line: count, custom_id: text, job_id: text })),
    },
    { description: 'The number of lines with unfinished jobs, and the first of them.' },
  ),
  input_file: orNull(batchFile),
  output_file: orNull(batchFile),
  error_file: orNull(batchFile),
})
export type BatchDetails = Static<typeof batchDetails>

function batchSummaryView(batch: StoredBatch, nowMs: number): BatchSummary {
  const { id, account, status, endpoint, createdAtMs, deadlineMs, cancellingAtMs } = batch
  const progress = progressOf(batch)
  const { completed, failed, inProgressAtMs, endedAtMs, waiting, cost } = progress
  const total = progress.total ?? 0
  const ended = completed + failed
  const tookS = inProgressAtMs === null ? 0 : ((endedAtMs ?? nowMs) - inProgressAtMs) / 1000
  const rate = ended > 0 && tookS > 0 ? ended / tookS : null
  const isRunning = rate !== null && status === 'in_progress'
  return {
    batch_id: `${BATCH_PREFIX}${id}`,
    account,
    status,
    endpoint,
    created_at: createdAtMs / 1000,
    in_progress_at: seconds(inProgressAtMs),
    cancelling_at: seconds(cancellingAtMs),
    ended_at: seconds(endedAtMs),
    deadline: deadlineMs / 1000,
    lines: { total, completed, failed },
    lines_per_second: rate,
    estimated_end: isRunning ? nowMs / 1000 + (total - ended) / rate : null,
    waiting,
    usage: {
      input_tokens: progress.inputTokens,
      cached_input_tokens: progress.cachedTokens,
      output_tokens: progress.outputTokens,
      ...(cost !== undefined && { cost }),
    },
  }
}

/** @param nextTurn awaited after each large batch, so that the event loop can handle other requests */
export async function batchSummaries(
  batches: readonly StoredBatch[],
  nowMs: number,
  nextTurn: () => Promise<void>,
): Promise<BatchSummary[]> {
  const views: BatchSummary[] = []
  for (const batch of batches) {
    views.push(batchSummaryView(batch, nowMs))
    if (isLarge(batch)) await nextTurn()
  }
  return views
}

const MAX_LINES = 20

export interface PartsOfBatch {
  readonly lines: readonly BatchLine[]
  readonly input: StoredFile | null
  readonly output: StoredFile | null
  readonly errors: StoredFile | null
}

export function batchDetailsView(batch: StoredBatch, parts: PartsOfBatch, nowMs: number): BatchDetails {
  const { lines, input, output, errors } = parts
  const first = lines.slice(0, MAX_LINES)
  return {
    ...batchSummaryView(batch, nowMs),
    metadata: { ...aboutOf(batch).metadata },
    problems: [...progressOf(batch).problems],
    running: {
      total: lines.length,
      first: first.map(({ line, customId, jobId }) => ({ line, custom_id: customId, job_id: jobId })),
    },
    input_file: fileView(input),
    output_file: fileView(output),
    error_file: fileView(errors),
  }
}

function fileView(file: StoredFile | null): BatchFile | null {
  return file && { file_id: `file-${file.id}`, filename: file.filename, bytes: file.bytes }
}
