/**
 * Load shedding: each 503 a server sends because it has too much to do, with the seconds for Retry-After. Nothing was
 * created then. What is shed, where that is decided, and by which settings:
 *
 * | what is full | decided in | setting |
 * |---|---|---|
 * | connections | `connection-limits.ts`, before a request is read | `limits.connections`, `limits.connections_per_address` |
 * | memory for bodies and answers | `memory-share.ts` | `limits.memory_bytes` |
 * | threads that read bodies and count tokens | `request-cpu.ts` | `cpu.max_requests` |
 * | writes that wait for the database | `store/group-commit.ts`, as `StoreUnavailable` | `limits.queued_writes` |
 * | event streams of the dashboard | `http/admin/events.ts` | |
 */
import { HttpError } from '../errors.ts'

/** The service cannot take jobs now: nothing was created. */
export const unavailable = () =>
  new HttpError(
    503,
    'Service temporarily unavailable.',
    'Nothing was created; try again after the time in Retry-After.',
    1,
  )

/** Only an account that holds its part of the memory gets this. */
export const overMemoryPart = (share: string) =>
  new HttpError(
    503,
    'Too much in progress for this account.',
    `The account holds its part of the memory for ${share} (limits.memory_bytes). Send fewer or smaller requests at once; try again after the time in Retry-After.`,
    MEMORY_RETRY_S,
  )

/** Several accounts together hold all of it. */
export const memoryFull = (share: string) =>
  new HttpError(
    503,
    'Service temporarily unavailable.',
    `The memory for ${share} (limits.memory_bytes) is in use; try again after the time in Retry-After.`,
    MEMORY_RETRY_S,
  )

const MEMORY_RETRY_S = 5
const NOTHING_CREATED = 'Nothing was created; try again after the time in Retry-After.'

/** Too many requests need the CPU pool already. */
export const cpuBusy = () =>
  new HttpError(
    503,
    'Too many large requests are being read.',
    `This server reads and counts only so many at once (cpu.max_requests), and a quarter of them for one account. ${NOTHING_CREATED}`,
    2,
  )

export const cpuTimedOut = () =>
  new HttpError(
    503,
    'The request could not be read in time.',
    `Reading the body and counting its tokens took too long, because other requests were ahead. ${NOTHING_CREATED}`,
    5,
  )

export const tooManyListeners = () =>
  new HttpError(503, 'Too many event streams are open on this node.', 'Close some, or use another node.', 10)
