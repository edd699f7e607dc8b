/**
 * Runs a hostile account in a separate process: every attack known to hurt a server at once, again and again, until the process
 * is ended. Prints a line when all attacks are running. On SIGTERM, prints as JSON how many responses of each status it got.
 *
 *     node test/process/hostile-account.ts http://127.0.0.1:8000 prl_… [ATTACK,…]
 *
 * If attacks are named, only these run.
 */
import { setTimeout } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { getHead, hostileSocket, postHead } from './hostile-sockets.ts'
import {
  BATCHES,
  batchOf,
  filled,
  job,
  LARGEST,
  MESSAGES,
  names,
  randomText,
  withPayload,
} from './watched-server.ts'

const [url = '', key = '', only = ''] = process.argv.slice(2)

const UPLOADS = 30
const READERS = 50
const DRIPPING = 100
const TEXTS = 8
const LARGE_BODIES = 2
const SLOW_BATCHES = 4
const UNKNOWN_KEYS = 2
const PAUSE_MS = 20
/**
 * A connection that the server closed is opened again after this pause. Floods of connections are the network's problem, not
 * the server's.
 */
const RECONNECT_MS = 1000
const DRIP_MS = 1000

const dispatcher = new Agent({ connections: null, headersTimeout: 0, bodyTimeout: 0 })
const statuses: Record<string, number> = {}

function count(what: string): void {
  statuses[what] = (statuses[what] ?? 0) + 1
}

/** The bodies are built once, so that they take no CPU time from the server. */
const largeBodies = [
  withPayload(`{"a":[${filled('1,', LARGEST)}1]}`),
  withPayload(names(LARGEST)),
  `[${names(LARGEST)}]`,
  '['.repeat(LARGEST),
  `[[${filled('[],', LARGEST)}[]]]`,
  batchOf(1, () => ({ messages: Array(200_000).fill({ role: 'user', content: '' }) })),
].map((text) => Buffer.from(text))
const texts = Array.from({ length: TEXTS }, (_, seed) =>
  JSON.stringify(job({ messages: [{ role: 'user', content: randomText(70_000, seed) }] })),
)
const payload = 'x'.repeat(60_000)
const callback = { callback_url: 'http://127.0.0.1:9/', callback_payload: payload }
const slowBatch = batchOf(2, () => ({ messages: [{ role: 'user', content: 'x'.repeat(20_000) }], callback }))
const partOfBody = Buffer.alloc(LARGEST - 1000, 'x')

async function post(name: string, path: string, body: string | Buffer, apiKey = key): Promise<void> {
  const headers = { 'x-api-key': apiKey, 'content-type': 'application/json' }
  const answer = await request(url + path, { method: 'POST', headers, body, dispatcher })
  await answer.body.dump()
  count(`${name} ${answer.statusCode}`)
  if (answer.statusCode >= 429) await setTimeout(PAUSE_MS)
}

async function upload(): Promise<void> {
  const socket = await hostileSocket(url)
  await socket.send(postHead(BATCHES, key, LARGEST))
  await socket.send(partOfBody)
  await socket.closed
  count('uploads closed')
  await setTimeout(RECONNECT_MS)
}

async function read(): Promise<void> {
  const socket = await hostileSocket(url, { reads: false })
  await socket.send(getHead('/docs/js/scalar.js', null))
  await socket.closed
  count('readers closed')
  await setTimeout(RECONNECT_MS)
}

async function drip(): Promise<void> {
  const socket = await hostileSocket(url)
  await socket.send('GET /healthz HTTP/1.1\r\nhost: parley\r\nx-a: ')
  const timer = setInterval(() => void socket.send('x'), DRIP_MS)
  await socket.closed
  clearInterval(timer)
  count('drips closed')
  await setTimeout(RECONNECT_MS)
}

let guesses = 0

const attacks: readonly (readonly [
  name: string,
  times: number,
  attack: (worker: number, turn: number) => Promise<void>,
])[] = [
  ['uploads', UPLOADS, upload],
  ['readers', READERS, read],
  ['drips', DRIPPING, drip],
  [
    'bodies',
    LARGE_BODIES,
    (worker, turn) => post('bodies', BATCHES, largeBodies[(worker + turn) % largeBodies.length] ?? ''),
  ],
  ['texts', TEXTS, (worker) => post('texts', MESSAGES, texts[worker] ?? '')],
  ['batches', SLOW_BATCHES, () => post('batches', BATCHES, slowBatch)],
  [
    'unknown keys',
    UNKNOWN_KEYS,
    () => post('unknown keys', MESSAGES, '{}', `prl_${(guesses++).toString(36).padStart(38, '0')}`),
  ],
]

process.once('SIGTERM', () => {
  process.stdout.write(`${JSON.stringify(statuses)}\n`, () => process.exit())
})
for (const [name, times, attack] of attacks) {
  if (only !== '' && !only.split(',').includes(name)) continue
  for (let worker = 0; worker < times; worker++) void repeat((turn) => attack(worker, turn))
}
process.stdout.write('attacking\n')

async function repeat(attack: (turn: number) => Promise<void>): Promise<void> {
  for (let turn = 0; ; turn++) {
    // A connection that the server closes in the middle of a body is one of its ways to reject it.
    await attack(turn).catch(() => setTimeout(PAUSE_MS))
  }
}
