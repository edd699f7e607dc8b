/**
 * Receives callbacks, and responds correctly or with one of many faults, according to seeded random numbers. The receiver can
 * go down and come back on the same port.
 *
 * ```ts
 * const receiver = await startFaultyReceiver(random, { onRequest: (request, answered) => …, onUnread: (request) => … })
 * await receiver.maybeTurn()   // from time to time: it goes down or comes back
 * await receiver.up()
 * ```
 */
import { type ReceivedRequest, type Receiver, type ReceiverReply, startReceiver } from '../receiver.ts'
import type { Random } from './random.ts'

/** Says how much of a response the server may have read. `whole` and `begun` are about a 2xx response. */
export type Answered = 'whole' | 'begun' | 'no'

interface Behaviour {
  /** The share is a percentage of the requests. */
  readonly share: number
  readonly reply: ReceiverReply
  readonly answered: Answered
}

const busy = (status: number): ReceiverReply => ({ kind: 'answer', status, headers: { 'retry-after': '1' } })

const BEHAVIOURS: readonly Behaviour[] = [
  { share: 60, reply: { kind: 'answer', body: 'thank you' }, answered: 'whole' },
  { share: 10, reply: { kind: 'answer', status: 204 }, answered: 'whole' },
  { share: 3, reply: { kind: 'reset', when: 'middle' }, answered: 'begun' },
  { share: 1, reply: { kind: 'stall', afterHeaders: true }, answered: 'begun' },
  { share: 1, reply: { kind: 'drip', everyMs: 50 }, answered: 'begun' },
  { share: 5, reply: { kind: 'stall' }, answered: 'no' },
  { share: 5, reply: { kind: 'reset', when: 'before' }, answered: 'no' },
  { share: 2, reply: { kind: 'raw', text: 'HTTP/1.1 200 O' }, answered: 'no' },
  { share: 5, reply: { kind: 'answer', status: 500, body: 'oh' }, answered: 'no' },
  { share: 1, reply: { kind: 'answer', status: 302, headers: { location: '/elsewhere' } }, answered: 'no' },
  { share: 1, reply: { kind: 'answer', status: 404 }, answered: 'no' },
  { share: 3, reply: busy(503), answered: 'no' },
  { share: 3, reply: busy(429), answered: 'no' },
]

/** At each turn, the receiver goes down with a chance of one in TURNS_UP, or comes back with a chance of one in TURNS_DOWN. */
const TURNS_UP = 60
const TURNS_DOWN = 10

export interface ReceiverEvents {
  onRequest(request: ReceivedRequest, answered: Answered): void
  /**
   * The receiver calls this if the server cannot have read the response to this request: the server was killed, it stopped
   * waiting, or the receiver went down before.
   */
  onUnread(request: ReceivedRequest): void
}

export interface FaultyReceiver {
  /** The URL stays the same while the receiver is down. */
  readonly url: string
  outages(): number
  maybeTurn(): Promise<void>
  /** Interrupts everything in progress, and rejects new connections. */
  down(): Promise<void>
  up(): Promise<void>
}

export async function startFaultyReceiver(random: Random, events: ReceiverEvents): Promise<FaultyReceiver> {
  const reply = (request: ReceivedRequest) => {
    const { reply, answered } = behaviour(random.below(100))
    events.onRequest(request, answered)
    return reply
  }
  const start = (port: number) => startReceiver({ port, reply, onUnread: events.onUnread })
  const first = await start(0)
  const { url, port } = first
  let receiver: Receiver | null = first
  let outages = 0
  /** While the receiver was down, the system may have given its port to an outgoing connection, so starting is retried. */
  const startAgain = async (): Promise<Receiver> => {
    for (;;) {
      try {
        return await start(port)
      } catch (error) {
        if ((error as { code?: string }).code !== 'EADDRINUSE') throw error
      }
    }
  }
  /** Turns must not overlap, so each starts when the last has ended. */
  let turning: Promise<void> = Promise.resolve()
  const turn = (work: () => Promise<void>) => {
    turning = turning.then(work)
    return turning
  }
  const up = () =>
    turn(async () => {
      receiver ??= await startAgain()
    })
  const down = () =>
    turn(async () => {
      if (!receiver) return
      const ending = receiver
      receiver = null
      outages += 1
      await ending.close()
    })
  return {
    ...{ url, up, down, outages: () => outages },
    async maybeTurn() {
      if (receiver) {
        if (random.below(TURNS_UP) === 0) await down()
      } else if (random.below(TURNS_DOWN) === 0) await up()
    },
  }
}

function behaviour(chance: number): Behaviour {
  let left = chance
  for (const one of BEHAVIOURS) {
    left -= one.share
    if (left < 0) return one
  }
  throw new Error('the shares of the behaviours are not a hundred')
}
