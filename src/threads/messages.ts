/**
 * What the main thread and a request thread send to each other.
 *
 * A request thread owns connections: it parses requests, authenticates them and reads bodies, and it writes responses. Everything that
 * has a limit stays with the main thread, which owns the engine: the request thread describes a request in one message (a call), and
 * the main thread answers it exactly once. A request that is not plain is not described but sent on whole, through a tunnel, to the
 * HTTP server of the main thread (`forward`); so there is one implementation of every rule and every error.
 *
 * Guarantees:
 * - Messages arrive in the order in which they were sent, sockets and tunnels included.
 * - `forward` as the answer to a call means that nothing was created and nothing was counted: the request is sent on as if it had
 *   not been described.
 * - A `create` is answered with `accepted` or `ended` only once its jobs are durable.
 * - The calls of a thread that ends are not answered; it ends with the process.
 */
import type { Socket } from 'node:net'
import type { MessagePort } from 'node:worker_threads'
import type { Status } from '../job/job.ts'

/**
 * The fields of a job that its caller's key does not determine. An array instead of an object, because copying objects costs
 * several times as much.
 */
export type JobCells = readonly [
  id: string,
  model: string,
  messagesJson: string,
  responseFormatJson: string,
  cacheTtlMs: number,
  callbackJson: string | null,
  createdAtMs: number,
  inputTokens: number,
]

export type ToMain =
  /** Answered with `caller`, or `forward` for a key that the HTTP server has not accepted yet. */
  | readonly [kind: 'authenticate', call: number, key: string]
  /**
   * Creates the jobs, all or none. Answered with `accepted` once they are durable; with `ended` if `waitMs` is not null, which is for
   * one job: when it has ended, the time is over, or the server stops.
   */
  | readonly [
      kind: 'create',
      call: number,
      keyId: string,
      bodyBytes: number,
      waitMs: number | null,
      jobs: readonly JobCells[],
    ]
  /** Counts one read. Answered with `record`. */
  | readonly [kind: 'read', call: number, keyId: string, jobId: string]
  /** The client of a `create` that waits has hung up. The call is still answered. */
  | readonly [kind: 'leave', call: number]
  /** A response whose bytes were `counted` is written, or its client is gone. */
  | readonly [kind: 'sent', call: number]
  /** A response was written, or could not be. */
  | readonly [
      kind: 'completed',
      requestId: string,
      method: string,
      route: string,
      status: number,
      ms: number,
      from: string | null,
      account: string | null,
      jobIds: readonly string[] | null,
    ]
  /** A connection is closed. `stalled`: by the thread, because its client read nothing. */
  | readonly [kind: 'closed', connection: number, stalled: boolean]
  /** A connection to the HTTP server of the main thread, for requests of the client at that address. */
  | readonly [kind: 'tunnel', port: MessagePort, address: string | null]
  /** The thread serves what it is sent from now on. */
  | readonly [kind: 'ready']
  /** After `stop`: every connection is closed. */
  | readonly [kind: 'drained']

export type ToThread =
  /** A connection that was just accepted, and has not been read from. It is moved to the thread. */
  | readonly [kind: 'connection', connection: number, socket: Socket]
  | readonly [kind: 'forward', call: number]
  | readonly [
      kind: 'caller',
      call: number,
      keyId: string,
      account: string,
      tier: string,
      suspended: boolean,
      freshMs: number,
    ]
  | readonly [kind: 'accepted', call: number]
  /** The database could not store the jobs. It is not asked again for the same request: their execution may have begun already. */
  | readonly [kind: 'unavailable', call: number]
  /** `counted`: the response counts towards the byte budget until the thread reports it `sent`. */
  | readonly [
      kind: 'ended',
      call: number,
      status: Status,
      contentJson: string | null,
      errorJson: string | null,
      cacheHit: boolean,
      counted: boolean,
    ]
  /** The wait ended otherwise. `too large`: the job has ended, but its account may not hold the response now. */
  | readonly [kind: 'not ended', call: number, why: 'timeout' | 'stopping' | 'vanished' | 'too large']
  | readonly [
      kind: 'record',
      call: number,
      status: Status,
      createdAtMs: number,
      contentJson: string | null,
      errorJson: string | null,
      reads: number,
      leftMs: number,
    ]
  /** Close so many connections, each after its next response: another thread has fewer. */
  | readonly [kind: 'shed', connections: number]
  /** Close every connection after its response, and those that wait for a request now. */
  | readonly [kind: 'stop']
  /** Close every connection now. */
  | readonly [kind: 'cut off']
