/** The node:http shell of peers that accept batches: like Parley, it takes an array of jobs and returns their IDs. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sendToBench } from '../load/bench-channel.ts'

/** @param accept resolves with an ID for each job once all are durable */
export function serveBatches(accept: (jobs: readonly object[]) => Promise<readonly string[]>): void {
  const headers = { 'content-type': 'application/json' }
  const server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      accept(JSON.parse(Buffer.concat(pieces).toString()) as object[])
        .then((job_ids) => {
          const answer = JSON.stringify({ success: true, message: 'Enqueued.', data: { job_ids } })
          response.writeHead(202, { ...headers, 'content-length': Buffer.byteLength(answer) })
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
