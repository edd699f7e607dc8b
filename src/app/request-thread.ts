/** A request thread: connects its parts, and acts on what the main thread sends. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { MessageChannel, type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { systemClock, wholeMs } from '../clock.ts'
import { addressRulesOf } from '../config/callback-addresses.ts'
import { exactCountThresholds } from '../config/models.ts'
import type { Settings } from '../config/settings.ts'
import { tiersOf } from '../config/tiers.ts'
import { MAX_KEYS } from '../http/received-requests.ts'
import { StalledWrites } from '../http/stalled-writes.ts'
import { clientAddress, trustedProxies } from '../http/trusted-proxies.ts'
import { jobIdMaker } from '../job/job-id.ts'
import { Tiers } from '../job/tier.ts'
import { BodyReader } from '../threads/body-reader.ts'
import { ClientLines } from '../threads/client-line.ts'
import { Forwarder } from '../threads/forwarder.ts'
import { KnownCallers } from '../threads/known-callers.ts'
import { MainCalls } from '../threads/main-calls.ts'
import type { ToMain, ToThread } from '../threads/messages.ts'
import { plainLimits } from '../threads/plain-request.ts'
import { PlainRequests } from '../threads/plain-requests.ts'
import { Responder } from '../threads/responder.ts'
import { ThreadServer } from '../threads/thread-server.ts'
import { Tunnel } from '../threads/tunnel.ts'
import { TurnPort } from '../threads/turn-port.ts'
import { REPORT_EVERY_MS } from './loop-watch.ts'

export interface RequestThreadData {
  readonly settings: Settings
  /** Shared memory: how often the event loop of this thread has reported. */
  readonly reports: Int32Array<SharedArrayBuffer>
}

/** Bodies that arrive at the same time, in one thread: those beyond it count towards the byte budget before they are read. */
const ARRIVING_BYTES = 8 * 1024 * 1024

function serve(parent: MessagePort, { settings, reports }: RequestThreadData): void {
  const { limits } = settings
  const clock = systemClock
  const port = new TurnPort<ToMain>(parent)
  const calls = new MainCalls(port)
  const closes = () => server.closes()
  const lines = new ClientLines()
  const forwarder = new Forwarder({
    lines,
    open: (address) => openTunnel(port, address),
    closes,
    onUnsendable: (socket) => server.answerBroken(new Error('not valid HTTP'), socket),
  })
  const trusted = trustedProxies(settings.trust_proxy)
  const requests = new PlainRequests({
    calls,
    callers: new KnownCallers({
      calls,
      tiers: new Tiers(tiersOf(settings)),
      steadyMs: clock.steadyMs,
      maxKeys: MAX_KEYS,
    }),
    bodies: new BodyReader(ARRIVING_BYTES),
    responder: new Responder({ port, steadyMs: clock.steadyMs, closes }),
    rules: {
      models: exactCountThresholds(settings),
      addresses: addressRulesOf(settings),
      makeId: jobIdMaker(clock, (bytes) => randomBytes(bytes).toString('hex')),
      clock,
    },
    clock,
    limits: plainLimits({ single: limits.body_bytes, batch: limits.batch_body_bytes }),
    partLimits: { payloadBytes: limits.callback_payload_bytes, schemaBytes: limits.schema_bytes },
    maxDepth: limits.json_depth,
    addressOf: ({ socket, headers }: IncomingMessage) =>
      clientAddress(trusted, socket.remoteAddress, headers['x-forwarded-for']) ?? null,
    forward: (request, response, body) => forwarder.forward(request, response, body),
  })
  const server = new ThreadServer({
    port,
    lines,
    headerTimeoutMs: wholeMs(limits.header_timeout_seconds),
    requestTimeoutMs: wholeMs(limits.request_timeout_seconds),
    stalledWrites: (onClosed) =>
      new StalledWrites({
        clock,
        limitMs: wholeMs(limits.stalled_write_seconds),
        onClosed: (_address, socket) => onClosed(socket),
      }),
    handle: (request, response) => requests.handle(request, response),
  })
  parent.on('message', (messages: readonly ToThread[]) => {
    for (const message of messages) receive(message, server, calls)
  })
  setInterval(() => Atomics.add(reports, 0, 1), REPORT_EVERY_MS).unref()
  port.send(['ready'])
}

function receive(message: ToThread, server: ThreadServer, calls: MainCalls): void {
  switch (message[0]) {
    case 'connection': {
      const [, connection, socket]: readonly [string, number, Socket] = message
      server.accept(connection, socket)
      break
    }
    case 'shed':
      server.shed(message[1])
      break
    case 'stop':
      server.stop()
      break
    case 'cut off':
      server.cutOff()
      break
    default:
      calls.answered(message)
  }
}

function openTunnel(port: TurnPort<ToMain>, address: string | null): Tunnel {
  const { port1, port2 } = new MessageChannel()
  port.sendWith(['tunnel', port2, address], [port2])
  return new Tunnel(port1, null)
}

if (parentPort) serve(parentPort, workerData as RequestThreadData)
