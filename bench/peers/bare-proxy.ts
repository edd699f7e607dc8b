/**
 * Serves as the baseline for jobs: the least that a proxy to a model can do. A node:http server passes body and answer on
 * unchanged, with an undici pool. The server checks nothing and stores nothing.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'

interface Settings {
  readonly modelPort: number
  readonly connections: number
}

const { modelPort, connections } = settingsFromBench<Settings>()
const pool = new Pool(`http://127.0.0.1:${modelPort}`, {
  connections,
  pipelining: 1,
  headersTimeout: 0,
  bodyTimeout: 0,
})
const headers = { 'content-type': 'application/json' }

const server = createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => {
    const answered = pool.request({
      method: 'POST',
      path: '/v1/chat/completions',
      headers,
      body: Buffer.concat(pieces),
    })
    answered
      .then(async ({ statusCode, body }) => {
        const answer = Buffer.from(await body.arrayBuffer())
        response.writeHead(statusCode, { ...headers, 'content-length': answer.length })
        response.end(answer)
      })
      .catch((error: Error) => {
        response.writeHead(502, headers)
        response.end(JSON.stringify({ error: error.message }))
      })
  })
})
server.keepAliveTimeout = 75_000
server.requestTimeout = 0

onBenchMessage(() => {})
server.listen(0, '127.0.0.1', 16_384, () => {
  sendToBench({ kind: 'ready', port: (server.address() as AddressInfo).port })
})
