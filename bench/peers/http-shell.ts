/** Gives peers a node:http shell: a server in the peer's process that answers POST requests. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sendToBench } from '../load/bench-channel.ts'

/** @param answerTo resolves with the body of a response with this status. A rejection is answered with 500 */
export function servePosts(status: number, answerTo: (body: string) => Promise<string>): void {
  const headers = { 'content-type': 'application/json' }
  const server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      answerTo(Buffer.concat(pieces).toString())
        .then((answer) => {
          response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(answer) })
          response.end(answer)
        })
        .catch((error: Error) => {
          response.writeHead(500, headers)
          response.end(JSON.stringify({ error: error.message }))
        })
    })
  })
  server.keepAliveTimeout = 75_000
  server.listen(0, '127.0.0.1', 16_384, () => {
    sendToBench({ kind: 'ready', port: (server.address() as AddressInfo).port })
  })
}

/**
 * Takes an array of jobs and returns their IDs, as Parley does.
 * @param accept resolves with an ID for each job once all are durable
 */
export function serveBatches(accept: (jobs: readonly object[]) => Promise<readonly string[]>): void {
  servePosts(202, async (body) => {
    const job_ids = await accept(JSON.parse(body) as object[])
    return JSON.stringify({ success: true, message: 'Enqueued.', data: { job_ids } })
  })
}
