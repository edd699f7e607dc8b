/**
 * Tests that requests hold little memory while they wait for the response to an earlier one on the same connection, and that
 * responses are in order. Version 0.3.0 fails the attacks.
 */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { reply } from '../model-server.ts'
import type { Lifetime } from '../parley.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { peakOf, residentMiB } from '../support/memory-of.ts'
import { jobOf } from './caller.ts'
import { getHead, hostileSocket, postHead } from './hostile-sockets.ts'
import type { Server } from './server-process.ts'
import { startServer } from './started-server.ts'

const CONNECTIONS = 400
const REQUESTS = 62
const BODY_BYTES = 60_000
const HEADER_BYTES = 12_000
const MAX_MIB = 150
const HEAP_MIB = 512
const ATTACK_MS = LONG ? 20_000 : 2_000
const MESSAGES = '/api/v1/messages'
const UNKNOWN_KEY = 'none'
const LONG_TEXT = 'word '.repeat(BODY_BYTES / 5 - 40)
/** The attack begins when the memory has grown by less than this for a while. */
const GROWTH_MIB = 5
const STEADY_MS = LONG ? 5_000 : 1_000
const WARM_ANSWERS = 200

const ATTACKS: Readonly<Record<string, (key: string) => Buffer>> = {
  [`${REQUESTS} bodies of 60 KB`]: (key) => {
    const body = JSON.stringify(jobOf(LONG_TEXT))
    return Buffer.from((postHead(MESSAGES, key, body.length) + body).repeat(REQUESTS))
  },
  [`${REQUESTS} requests with headers of 12 KB`]: (key) => {
    const body = JSON.stringify(jobOf('Hello'))
    const large = `x-large: ${'x'.repeat(HEADER_BYTES)}\r\n`
    const head = postHead(MESSAGES, key, body.length).replace('host:', `${large}host:`)
    return Buffer.from((head + body).repeat(REQUESTS))
  },
  'the smallest requests': () =>
    Buffer.from('GET / HTTP/1.0\r\nconnection:keep-alive\r\n\r\n'.repeat(50_000)),
  'requests with very many headers': (key) => {
    const many = Array.from({ length: 900 }, (_, at) => `${at.toString(36)}:ab\r\n`).join('')
    return Buffer.from(getHead('/api/v1/me', key).replace('host:', `${many}host:`).repeat(200))
  },
}

async function stage(t: Lifetime) {
  const start = { heapMib: HEAP_MIB, env: { LOG_LEVEL: 'error' } }
  const started = await startServer(t, { models: { keep: false }, start })
  return { ...started, hostileKey: await started.place.key('hostile', 'user_free') }
}

/**
 * Any load makes V8 enlarge its heaps, and starts the threads that count tokens. So the same number of connections is busy
 * without pipelining until the memory no longer grows.
 */
async function warmUp(server: Server, key: string): Promise<void> {
  const busy = server.caller(key)
  let answers = 0
  let isWarm = false
  const all = Promise.allSettled(
    Array.from({ length: CONNECTIONS }, async () => {
      while (!isWarm) {
        await busy.single(LONG_TEXT)
        answers += 1
      }
    }),
  )
  let highestMiB = 0
  let sinceMs = performance.now()
  const steadyMs = () => {
    const nowMiB = residentMiB(server.program.pid)
    if (nowMiB > highestMiB + GROWTH_MIB) {
      highestMiB = nowMiB
      sinceMs = performance.now()
    }
    return answers < WARM_ANSWERS ? 0 : performance.now() - sinceMs
  }
  await eventually(steadyMs, (ms) => ms >= STEADY_MS)
  isWarm = true
  await busy.close()
  await all
}

async function warmStage(t: Lifetime) {
  const place = await stage(t)
  await warmUp(place.server, place.hostileKey)
  return { ...place, warmMiB: residentMiB(place.server.program.pid) }
}

/** In the short form, the attacks share a server, and together take no more memory than one of them may take. */
const shared = LONG ? null : await warmStage({ after })
const stageOfAttack = async (t: Lifetime) => shared ?? (await warmStage(t))

function isRun(attack: string, hasKey: boolean, reads: boolean): boolean {
  return LONG || (attack === Object.keys(ATTACKS)[0] && hasKey === reads)
}

const WAYS = [false, true].flatMap((hasKey) => [false, true].map((reads) => ({ hasKey, reads })))

for (const [attack, make] of Object.entries(ATTACKS)) {
  for (const { hasKey, reads } of WAYS.filter(({ hasKey, reads }) => isRun(attack, hasKey, reads))) {
    const how = `${hasKey ? 'with' : 'without'} a key, ${reads ? 'read' : 'unread'}`
    test(`${CONNECTIONS} connections that each pipeline ${attack} take at most ${MAX_MIB} MiB: ${how}`, async (t) => {
      const { server, key, hostileKey, warmMiB } = await stageOfAttack(t)
      const other = server.caller(key)
      const memory = peakOf(server.program.pid)
      t.after(memory.end)
      const sockets = await Promise.all(
        Array.from({ length: CONNECTIONS }, () => hostileSocket(server.url, { reads })),
      )
      t.after(() => {
        for (const { close } of sockets) close()
      })
      const data = make(hasKey ? hostileKey : UNKNOWN_KEY)
      for (const { send } of sockets) void send(data)
      const untilMs = performance.now() + ATTACK_MS
      let answered = 0
      let longestMs = 0
      while (performance.now() < untilMs) {
        const startMs = performance.now()
        const { status, text } = await other.single(`other ${answered}`)
        assert.equal(status, 200, text)
        longestMs = Math.max(longestMs, performance.now() - startMs)
        answered += 1
      }
      const more = Math.round(memory.peakMiB() - warmMiB)
      t.diagnostic(
        `${more} MiB more than ${Math.round(warmMiB)} at most; others got ${answered} answers, the slowest after ${Math.round(longestMs)} ms`,
      )
      assert.ok(more <= MAX_MIB, `${more} MiB more`)
    })
  }
}

test('a few pipelined requests get their responses in order, and the connection stays open', async (t) => {
  const { models, server, key } = await stageOfAttack(t)
  models.script = ({ text }) => reply.text(`answer to ${/(\d) word/.exec(text)?.[1]}`)
  const socket = await hostileSocket(server.url)
  t.after(() => socket.close())
  const create = (name: number) => {
    const body = JSON.stringify(jobOf(`${name} ${LONG_TEXT}`))
    return postHead(MESSAGES, key, body.length) + body
  }
  const ends = (pattern: RegExp) =>
    eventually(socket.text, (text) => pattern.test(text), { withinMs: 30_000 })
  await socket.send([1, 2, 3, 4, 5].map(create).join('') + getHead('/healthz', null))
  const text = await ends(/"status":"alive"/)
  assert.deepEqual(
    [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status),
    Array(6).fill('200'),
  )
  assert.deepEqual(
    [...text.matchAll(/answer to (\d)/g)].map(([, name]) => name),
    ['1', '2', '3', '4', '5'],
  )
  await socket.send(create(6))
  await ends(/answer to 6/)
})

test('SIGTERM while requests wait for their turn: the one being handled is answered, and the connection closes', async (t) => {
  const { models, server, key } = await stage(t)
  models.script = () => reply.stall()
  const socket = await hostileSocket(server.url)
  t.after(() => socket.close())
  const body = JSON.stringify(jobOf('slow'))
  await socket.send((postHead(MESSAGES, key, body.length) + body).repeat(3))
  await models.received(1)
  server.kill('SIGTERM')
  await socket.closed
  const statuses = [...socket.text().matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)
  assert.ok(statuses.length >= 1 && statuses.every((status) => status === '202'), socket.text())
  models.release()
  assert.deepEqual(await server.exited, { code: 0, signal: null })
})
