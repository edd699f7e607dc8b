/**
 * Defines the 503 errors of an overloaded server. These limits cause them:
 *
 * | what is full | decided in | setting |
 * |---|---|---|
 * | connections | `connection-limits.ts`, before a request is read | `limits.connections`, `limits.connections_per_address` |
 * | waiting requests of a connection | `http/pipelined-requests.ts` | `limits.memory_bytes` |
 * | memory for bodies and answers | `memory-share.ts` | `limits.memory_bytes` |
 * | threads that read bodies and count tokens | `request-cpu.ts` | `cpu.max_requests` |
 * | writes that wait for the database | `store/group-commit.ts`, as `StoreUnavailable` | `limits.queued_writes` |
 * | uploads of files | `v1/upload.ts` | |
 * | event streams of the dashboard | `http/admin/admin-routes.ts` | |
 */
import { HttpError } from '../errors.ts'

/** The database is unavailable or cannot keep up. */
export const unavailable = () =>
  new HttpError(
    503,
    'Service temporarily unavailable.',
    'Nothing was created. Try again after the time in Retry-After.',
    1,
  )

/** The account has used up its own part of the share. */
export const overMemoryPart = (share: string) =>
  new HttpError(
    503,
    'This account has too much in progress.',
    `The account uses its full share of the memory for ${share} (limits.memory_bytes). Send fewer or smaller requests at the same time, and try again after the time in Retry-After.`,
    MEMORY_RETRY_S,
  )

/** All accounts together use the whole share. */
export const memoryFull = (share: string) =>
  new HttpError(
    503,
    'Service temporarily unavailable.',
    `The memory for ${share} (limits.memory_bytes) is used up. Try again after the time in Retry-After.`,
    MEMORY_RETRY_S,
  )

const MEMORY_RETRY_S = 5
const NOTHING_CREATED = 'Nothing was created. Try again after the time in Retry-After.'

export const cpuBusy = () =>
  new HttpError(
    503,
    'Too many large requests are being processed.',
    `The number of requests that are read and counted at the same time is limited (cpu.max_requests), and one account may use a quarter of it. ${NOTHING_CREATED}`,
    2,
  )

export const cpuTimedOut = () =>
  new HttpError(
    503,
    'The request could not be read in time.',
    `Reading the body and counting its tokens took too long, because other requests were ahead of it. ${NOTHING_CREATED}`,
    5,
  )

export const tooManyListeners = () =>
  new HttpError(
    503,
    'Too many event streams are open on this node.',
    'Close some of them, or use another node.',
    10,
  )
