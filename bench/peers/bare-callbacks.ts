/**
 * Serves as the baseline for callbacks: a loop that posts from memory with an undici pool for each host. Each host has its own
 * share of the slots, so that a host that never answers takes none from the others. The loop stores nothing, never retries and
 * checks no address. Bodies and signatures are prepared in advance.
 */
import { Pool } from 'undici'
import { callbackRequest } from '../../src/callbacks/callback-sender.ts'
import { onBenchMessage, sendToBench, settingsFromBench } from '../load/bench-channel.ts'
import { owedCallbacks } from '../load/owed-callbacks.ts'
import type { CallbackOrder, CallbackSettings } from './callback-settings.ts'

interface Prepared {
  readonly origin: string
  readonly path: string
  readonly headers: { readonly [name: string]: string }
  readonly body: string
}
interface Host {
  readonly pool: Pool
  readonly waiting: Prepared[]
  inFlight: number
}

const settings = settingsFromBench<CallbackSettings>()
const { concurrency, timeoutMs } = settings
const requests = owedCallbacks(settings).map((due): Prepared => {
  const { url, headers, body } = callbackRequest(due, Date.now())
  const { origin, pathname: path } = new URL(url)
  return { origin, path, headers, body }
})
const byOrigin = Map.groupBy(requests, ({ origin }) => origin)
const mostEach = Math.ceil(concurrency / byOrigin.size)
const hosts: readonly Host[] = [...byOrigin].map(([origin, waiting]) => {
  const options = { connections: mostEach, pipelining: 1, headersTimeout: timeoutMs, bodyTimeout: timeoutMs }
  return { pool: new Pool(origin, options), waiting, inFlight: 0 }
})
let turn = 0
let inFlight = 0
let delivered = 0

function nextHost(): Host | null {
  for (let looked = 0; looked < hosts.length; looked++) {
    const host = hosts[turn]
    turn = (turn + 1) % hosts.length
    if (host && host.waiting.length > 0 && host.inFlight < mostEach) return host
  }
  return null
}

function sendAll(): void {
  while (inFlight < concurrency) {
    const host = nextHost()
    const request = host?.waiting.pop()
    if (!host || !request) return
    void send(host, request)
  }
}

async function send(host: Host, { path, headers, body }: Prepared): Promise<void> {
  host.inFlight += 1
  inFlight += 1
  try {
    const answer = await host.pool.request({ method: 'POST', path, headers, body })
    await answer.body.dump()
    if (answer.statusCode === 200) delivered += 1
  } catch {
    // The host does not answer. The baseline does not retry.
  }
  host.inFlight -= 1
  inFlight -= 1
  sendAll()
}

onBenchMessage<CallbackOrder>((order) => {
  if (order.kind === 'go') sendAll()
  else sendToBench({ kind: 'delivered', count: delivered })
})
sendToBench({ kind: 'ready' })
