/**
 * Serves as the baseline for pending requests: a node:http server that reads a request and holds its answer until `release`.
 * The server calls no model and stores nothing.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onBenchMessage, sendToBench } from '../load/bench-channel.ts'
import { CORRELATION_ID_BYTES, CORRELATION_ID_PREFIX } from '../load/correlation-id.ts'

type Order = { readonly kind: 'hold' | 'held?' | 'release' }

const held: (() => void)[] = []
let holding = false
const server = createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => {
    const body = Buffer.concat(pieces)
    const at = body.indexOf(CORRELATION_ID_PREFIX)
    const correlationId = body.toString('latin1', at, at + CORRELATION_ID_BYTES)
    const answer = () => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ status: 'completed', correlationId }))
    }
    if (holding) held.push(answer)
    else answer()
  })
})
server.keepAliveTimeout = 75_000
server.requestTimeout = 0

onBenchMessage<Order>(({ kind }) => {
  if (kind === 'held?') sendToBench({ kind: 'held', count: held.length })
  else if (kind === 'hold') {
    holding = true
    sendToBench({ kind: 'holding' })
  } else {
    holding = false
    for (const answer of held.splice(0)) answer()
  }
})
server.listen(0, '127.0.0.1', 16_384, () => {
  sendToBench({ kind: 'ready', port: (server.address() as AddressInfo).port })
})
