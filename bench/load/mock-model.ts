/**
 * Serves as the model server of benchmarks: plain node:http that answers every call with a valid chat completion of about
 * 400 bytes, after a delay or on a signal. The answer repeats the request's correlation ID, so that callers can recognize their
 * own.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onBenchMessage, sendToBench, settingsFromBench } from './bench-channel.ts'
import { CORRELATION_ID_BYTES, CORRELATION_ID_PREFIX } from './correlation-id.ts'
import { monotonicMs } from './monotonic.ts'

interface Settings {
  readonly delayMs: number
  readonly stalled?: boolean
}

type Order =
  | { readonly kind: 'delay'; readonly ms: number }
  /** With `timed`, the server records when it answers each request. */
  | { readonly kind: 'hold'; readonly timed: boolean }
  | { readonly kind: 'held?' }
  /** Asks how many requests the server has answered since it started to hold them. */
  | { readonly kind: 'answered?' }
  /** Answers the held requests, spread evenly over this time, and all later ones at once. */
  | { readonly kind: 'release'; readonly overMs: number }
  | { readonly kind: 'answer times?' }

const settings = settingsFromBench<Settings>()
let delayMs = settings.delayMs
let stalled = settings.stalled ?? false
let timed = false
let answered = 0
const held: (() => void)[] = []
/** Times are on the machine's monotonic clock. */
let answeredAtMs: [correlationId: string, atMs: number][] = []

const before = Buffer.from(
  '{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":"An answer of the length that a short reply has, to the request marked ',
)
const after = Buffer.from(
  ', and nothing more.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":256,"completion_tokens":24,"total_tokens":280}}',
)
const length = before.length + CORRELATION_ID_BYTES + after.length
const headers = { 'content-type': 'application/json', 'content-length': length }

const server = createServer((request, response) => {
  // A server requests the list of models when it starts. That request is not a job.
  if (request.method === 'GET') {
    response.end('{"object":"list","data":[{"id":"bench","object":"model"}]}')
    return
  }
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => {
    const [first] = pieces
    const body = pieces.length === 1 && first ? first : Buffer.concat(pieces)
    const at = body.indexOf(CORRELATION_ID_PREFIX)
    const correlationId =
      at < 0 ? Buffer.alloc(CORRELATION_ID_BYTES, 'x') : body.subarray(at, at + CORRELATION_ID_BYTES)
    take(request, response, correlationId)
  })
})
server.keepAliveTimeout = 0
server.requestTimeout = 0
server.headersTimeout = 0

function take(_request: IncomingMessage, response: ServerResponse, correlationId: Buffer): void {
  const answer = () => {
    answered += 1
    if (timed) answeredAtMs.push([correlationId.toString('latin1'), monotonicMs()])
    response.writeHead(200, headers)
    response.end(Buffer.concat([before, correlationId, after], length))
  }
  if (stalled) held.push(answer)
  else if (delayMs === 0) answer()
  else setTimeout(answer, delayMs)
}

function release(overMs: number): void {
  stalled = false
  const answers = held.splice(0)
  const startMs = monotonicMs()
  let next = 0
  const step = () => {
    const share = overMs === 0 ? 1 : Math.min(1, (monotonicMs() - startMs) / overMs)
    for (const due = Math.floor(answers.length * share); next < due; next++) answers[next]?.()
    if (next < answers.length) setTimeout(step, 1)
    else sendToBench({ kind: 'released' })
  }
  step()
}

onBenchMessage<Order>((order) => {
  switch (order.kind) {
    case 'delay':
      delayMs = order.ms
      sendToBench({ kind: 'delayed' })
      break
    case 'hold':
      stalled = true
      timed = order.timed
      answered = 0
      answeredAtMs = []
      sendToBench({ kind: 'holding' })
      break
    case 'held?':
      sendToBench({ kind: 'held', count: held.length })
      break
    case 'answered?':
      sendToBench({ kind: 'answered', count: answered })
      break
    case 'release':
      release(order.overMs)
      break
    case 'answer times?':
      sendToBench({ kind: 'answer times', times: answeredAtMs })
      timed = false
      answeredAtMs = []
      break
  }
})

server.listen(0, '127.0.0.1', 16_384, () => {
  sendToBench({ kind: 'ready', port: (server.address() as AddressInfo).port })
})
