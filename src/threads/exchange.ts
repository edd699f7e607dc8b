/** A plain request with its response, and what is known about it so far. */
import type { IncomingMessage, ServerResponse } from 'node:http'

export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Of the request, for headers and the log. */
  readonly id: string
  readonly startedMs: number
  /** Where the client is; null on a Unix socket. */
  readonly from: string | null
  readonly route: string
  account: string | null
  jobIds: readonly string[] | null
}
