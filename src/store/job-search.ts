/** Both stores share this SQL, with which operators search jobs and accounts read their requests. */
import type { Status, Usage } from '../job/job.ts'
import { isJobId, leastJobId } from '../job/job-id.ts'
import type { MetadataById } from '../job/job-record.ts'
import {
  BEFORE_METADATA,
  batchOf,
  formatParts,
  hasMetadata,
  METADATA_CHARS,
  pairText,
  splitMetadata,
  splitOptions,
} from '../job/response-format.ts'
import type { CallbackState } from './callback-store.ts'
import { AFTER_ALL, BEFORE_ALL, type Chunk, paginate } from './chunked-search.ts'
import { storedTextOf, storedTextOrNull } from './compressed-text.ts'
import type { Dialect } from './dialect.ts'
import type { Expiry } from './expiry.ts'
import { hasExpired, IS_JOB, STATUSES } from './job-rows.ts'
import type {
  JobContent,
  JobDetails,
  JobPage,
  JobSearch,
  JobSummary,
  JobUse,
  JobUseRange,
} from './job-search-store.ts'
import type { OwnRequest, OwnRequestRead } from './own-job-store.ts'
import type { RerunLinks } from './rerun-store.ts'
import { rerunLinks } from './reruns.ts'
import { numberOf, numberOrNull, oneOf, type Row, textOf, textOrNull } from './rows.ts'
import { allOf, raw, read, type Sql, type Steps, sql } from './sql.ts'
import { messagesBytesOf } from './stored-bytes.ts'

export interface JobScan {
  readonly account: string | null
  readonly status: Status | null
  readonly model: string | null
  readonly pairTexts: readonly string[]
  readonly fromId: string
  /** The scan goes from newer to older jobs, and starts before this ID. */
  readonly beforeId: string
  readonly rows: number
}

export type JobChunk = Chunk<Row>

export const jobSearchOperations = (dialect: Dialect) => {
  const { job, joinJob, jobsWith, idsOf, jobId: idOf, placeIn } = dialect
  const messages = dialect.text(job.request, 'messages')
  const messagesBytes = raw(messagesBytesOf(job.request.texts.join('')))
  const summary = sql`j.id, j.account, j.tier, j.model, ${job.status} as status, j.created_at_ms, j.cache_ttl_s,
    ${job.claimedAtMs} as claimed_at_ms, ${job.settledAtMs} as settled_at_ms, ${job.attempt} as attempt, o.usage,
    substr(o.error, 1, ${raw(ERROR_HEAD)}) as error_head, c.due_at_ms, c.delivered_at_ms, c.failed_at_ms`
  const details = sql`${summary}, ${job.crashCount} as deaths, ${job.queued}.turn, ${job.queued}.route,
    ${job.queued}.waits_since_ms, ${job.request}.response_format, j.priority, j.deadline_ms, o.receipt`
  const content = sql`j.cache_ttl_s, ${job.settledAtMs} as settled_at_ms, c.due_at_ms, ${messages} as messages,
    ${job.request}.response_format, ${dialect.text(sql`o`, 'content')} as content, o.error, o.receipt`

  /** Returns a compressed text whole, because SQL cannot decompress it. */
  const startOfMessages = (chars: number) => sql`case when ${job.request}.messages_bytes is null
    then substr(${job.request}.messages, 1, ${chars}) else ${messages} end`

  const startsWithMetadata = sql`substr(${job.request}.response_format, 1, ${raw(BEFORE_METADATA.length)}) = ${BEFORE_METADATA}`
  const storedMetadata = sql`substr(${job.request}.response_format, 1, ${raw(METADATA_CHARS)})`

  function* findOne(columns: Sql, jobId: string, expiry: Expiry): Steps<Row | null> {
    if (!isJobId(jobId)) return null
    const [row] =
      yield sql`select ${columns} from (select ${idOf(jobId)} as id) one ${joinJob(sql`one.id`)} where ${raw(IS_JOB)}`
    return row && !hasExpired(row, expiry) ? row : null
  }

  const use = sql`j.id, j.account, j.model, ${job.status} as status, j.created_at_ms,
    ${job.settledAtMs} as settled_at_ms, o.usage,
    case when ${startsWithMetadata} then ${storedMetadata} else '{}' end as format_start`

  return {
    jobUses: read(function* ({ afterId, beforeId, limit }: JobUseRange): Steps<JobUse[]> {
      const rows = yield sql`
        select ${use} from (
          select id from jobs j where id > ${afterId} and id < ${beforeId} and ${raw(IS_JOB)} order by id limit ${limit}
        ) one ${joinJob(sql`one.id`)} order by j.id`
      return rows.map(readJobUse)
    }),

    jobUsesOf: read(function* (jobIds: readonly string[]): Steps<JobUse[]> {
      if (jobIds.length === 0) return []
      const rows = yield sql`select ${use} from (${idsOf(jobIds)}) one ${joinJob(sql`one.id`)} order by j.id`
      return rows.map(readJobUse)
    }),

    /** If nothing matches, the statement returns a single row without an ID, which says only how far the scan came. */
    scanJobs: read(function* (scan: JobScan): Steps<JobChunk> {
      const { account, status, model, pairTexts, fromId, beforeId, rows: limit } = scan
      const columns = account === null ? sql`id` : sql`id, account`
      const range = sql`id < ${beforeId} and id >= ${fromId}`
      const rows = yield sql`
        with scanned as materialized (
          ${jobsWith(status, columns, range)} order by id desc limit ${raw(limit)}
        ),
        matching as (
          select ${summary}${pairTexts.length === 0 ? sql`` : sql`, ${storedMetadata} as stored_metadata`}
          from (select id from scanned where ${account === null ? sql`true` : sql`account = ${account}`}) one
          ${joinJob(sql`one.id`)}
          where ${allOf(
            raw(IS_JOB),
            model === null ? undefined : sql`j.model = ${model}`,
            status === null ? undefined : sql`${job.status} = ${status}`,
            pairTexts.length === 0 ? undefined : startsWithMetadata,
            ...pairTexts.map((text) => sql`${placeIn(storedMetadata, text)} > 0`),
          )}
        )
        select (select count(*) from scanned) as scanned, (select id from scanned order by id limit 1) as last_id, m.*
        from (select 1 as one) one left join matching m on true order by m.id desc`
      const [first = {}] = rows
      return {
        scanned: numberOf(first, 'scanned'),
        lastId: textOrNull(first, 'last_id'),
        matches: rows.filter((row) => row.id !== null),
      }
    }),

    findJob: read(function* (jobId: string, expiry: Expiry): Steps<JobDetails | null> {
      const row = yield* findOne(details, jobId, expiry)
      return row && { ...readJobDetails(row), ...(yield* rerunLinks(idOf(jobId))) }
    }),

    heldMessages: read(function* (account: string, jobId: string, maxBytes: number): Steps<string | null> {
      if (!isJobId(jobId)) return null
      const [row] = yield sql`
        select ${messages} as messages from (select ${idOf(jobId)} as id) one ${joinJob(sql`one.id`)}
        where j.account = ${account} and ${job.queued}.node is not null
          and ${messagesBytes} <= ${maxBytes}`
      return row ? storedTextOf(row, 'messages') : null
    }),

    readRequest: read(function* ({
      account,
      jobId,
      expiry,
      messageChars,
    }: OwnRequestRead): Steps<OwnRequest | null> {
      const columns = sql`j.account, j.model, j.cache_ttl_s, ${job.settledAtMs} as settled_at_ms, c.due_at_ms,
        ${job.request}.response_format, ${messageChars === 0 ? raw("''") : startOfMessages(messageChars)} as messages_start,
        ${messagesBytes} as message_bytes`
      const row = yield* findOne(columns, jobId, expiry)
      if (!row || row.account !== account) return null
      return {
        model: textOf(row, 'model'),
        responseFormatJson: textOf(row, 'response_format'),
        messagesStart: firstCharacters(storedTextOf(row, 'messages_start'), messageChars),
        messageBytes: numberOf(row, 'message_bytes'),
      }
    }),

    jobContent: read(function* (jobId: string, expiry: Expiry): Steps<JobContent | null> {
      const row = yield* findOne(content, jobId, expiry)
      return row && readJobContent(row)
    }),

    metadataOf: read(function* (jobIds: readonly string[]): Steps<MetadataById> {
      if (jobIds.length === 0) return new Map()
      const rows = yield sql`
        select one.id, ${job.request}.response_format from (${idsOf(jobIds)}) one ${joinJob(sql`one.id`)}
        where ${startsWithMetadata}`
      return new Map(rows.map((row) => [textOf(row, 'id'), metadataIn(row)]))
    }),
  }
}

/** Each scan is a separate operation, so that other operations run between them. */
export async function searchJobsByChunk(
  search: JobSearch,
  rows: number,
  scanJobs: (scan: JobScan) => Promise<JobChunk>,
): Promise<JobPage> {
  const { account = null, status = null, model = null, metadata = {}, limit, expiry } = search
  const pairTexts = Object.entries(metadata).map(pairText)
  const chunkRows = pairTexts.length === 0 ? rows : Math.ceil(rows / METADATA_COST)
  const fromId = search.fromMs === undefined ? BEFORE_ALL : leastJobId(search.fromMs)
  const { items, complete, next } = await paginate<JobSummary>({
    limit,
    chunkRows,
    beforeId: upperBound(search),
    idOf: ({ id }) => id,
    scan: async (beforeId) => {
      const scan = { account, status, model, pairTexts, fromId, beforeId, rows: chunkRows }
      const chunk = await scanJobs(scan)
      const matches = chunk.matches
        .filter((row) => !hasExpired(row, expiry))
        .filter((row) => pairTexts.length === 0 || hasMetadata(textOf(row, 'stored_metadata'), metadata))
        .map(readJobSummary)
      return { ...chunk, matches }
    },
  })
  return { jobs: items, complete, next }
}

function upperBound({ toMs, beforeJobId }: JobSearch): string {
  const to = toMs === undefined ? AFTER_ALL : leastJobId(toMs)
  return beforeJobId !== undefined && beforeJobId < to ? beforeJobId : to
}

/**
 * A scan that filters by metadata reads this many times fewer jobs, because metadata costs more to read: in SQLite, it is
 * stored after the messages.
 */
const METADATA_COST = 10

/** Only this many characters of an error are read. Its code is within them. */
const ERROR_HEAD = 80

function readJobSummary(row: Row): JobSummary {
  return {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    tier: textOf(row, 'tier'),
    model: textOf(row, 'model'),
    status: oneOf(row, 'status', STATUSES),
    createdAtMs: numberOf(row, 'created_at_ms'),
    claimedAtMs: numberOrNull(row, 'claimed_at_ms'),
    settledAtMs: numberOrNull(row, 'settled_at_ms'),
    attempts: numberOf(row, 'attempt'),
    errorCode: codeOf(textOrNull(row, 'error_head')),
    usage: readUsage(textOrNull(row, 'usage')),
    callback: callbackState(row),
  }
}

function readJobUse(row: Row): JobUse {
  return {
    id: textOf(row, 'id'),
    account: textOf(row, 'account'),
    model: textOf(row, 'model'),
    status: oneOf(row, 'status', STATUSES),
    createdAtMs: numberOf(row, 'created_at_ms'),
    settledAtMs: numberOrNull(row, 'settled_at_ms'),
    usage: readUsage(textOrNull(row, 'usage')),
    formatStart: textOf(row, 'format_start'),
  }
}

function readJobDetails(row: Row): Omit<JobDetails, keyof RerunLinks> {
  const stored = textOf(row, 'response_format')
  const { kind } = formatParts(stored)
  return {
    ...readJobSummary(row),
    format: kind === 'schema' ? 'json with schema' : kind,
    crashCount: numberOf(row, 'deaths'),
    queued:
      row.turn === null
        ? null
        : { route: textOf(row, 'route'), waitsSinceMs: numberOrNull(row, 'waits_since_ms') },
    priority: textOrNull(row, 'priority') ?? 'normal',
    deadlineMs: numberOrNull(row, 'deadline_ms'),
    receiptJson: textOrNull(row, 'receipt'),
    batch: batchOf(stored),
  }
}

/** Counts a surrogate pair as one character, like SQL's `substr`. */
function firstCharacters(text: string, count: number): string {
  let end = 0
  for (let counted = 0; counted < count && end < text.length; counted++) {
    end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1
  }
  return text.slice(0, end)
}

function metadataIn(row: Row): string {
  return splitMetadata(textOf(row, 'response_format')).metadataJson ?? '{}'
}

function readJobContent(row: Row): JobContent {
  const stored = textOf(row, 'response_format')
  const { optionsJson, formatJson } = splitOptions(stored)
  return {
    messagesJson: storedTextOf(row, 'messages'),
    responseFormatJson: formatJson,
    optionsJson,
    metadataJson: splitMetadata(stored).metadataJson,
    contentJson: storedTextOrNull(row, 'content'),
    errorJson: textOrNull(row, 'error'),
    receiptJson: textOrNull(row, 'receipt'),
  }
}

function readUsage(json: string | null): Usage | null {
  return json === null ? null : JSON.parse(json)
}

function codeOf(errorHead: string | null): string | null {
  return /^\{"code":"(\w+)"/.exec(errorHead ?? '')?.[1] ?? null
}

function callbackState(row: Row): CallbackState | null {
  if (row.due_at_ms !== null) return 'owed'
  if (row.delivered_at_ms !== null) return 'delivered'
  return row.failed_at_ms === null ? null : 'failed'
}
