/**
 * Serves as the baseline for reads: node:http that sends the bytes of each answer from memory. The server has no API keys,
 * limits or jobs.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onBenchMessage, sendToBench } from '../load/bench-channel.ts'

export interface BareAnswers {
  readonly kind: 'answers'
  readonly headers: Readonly<Record<string, string>>
  readonly bodies: readonly (readonly [path: string, body: string])[]
}

let headers: Readonly<Record<string, string>> = {}
const bodies = new Map<string, Buffer>()

const server = createServer((request, response) => {
  const body = bodies.get(request.url ?? '')
  if (body === undefined) {
    response.writeHead(404)
    response.end()
    return
  }
  response.writeHead(200, { ...headers, 'content-length': body.length })
  response.end(body)
})
server.keepAliveTimeout = 75_000

onBenchMessage<BareAnswers>((answers) => {
  headers = answers.headers
  for (const [path, body] of answers.bodies) bodies.set(path, Buffer.from(body))
  sendToBench({ kind: 'stored' })
})
server.listen(0, '127.0.0.1', 16_384, () => {
  sendToBench({ kind: 'ready', port: (server.address() as AddressInfo).port })
})
