import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { FakeClock } from '../../test/fake-clock.ts'
import { ByteShare, requestBytes, uploadBytes, waitingRequestBytes } from '../sharing/byte-budget.ts'
import { RequestBodies } from './request-bodies.ts'

const MIB = 1024 * 1024
const BODY_LIMIT = MIB

function start() {
  const budget = { uploads: new ByteShare(16 * MIB), requests: new ByteShare(16 * MIB) }
  const bodies = new RequestBodies({ budget, clock: new FakeClock(), onRejected: () => {} })
  const request = (headers: object, account = 'acme') => {
    const raw = new PassThrough()
    const route = { bodyLimit: BODY_LIMIT, config: {} }
    const fields = { raw, headers, method: 'POST', route, caller: { account }, bodyMemory: null }
    return { raw, request: fields as unknown as FastifyRequest }
  }
  const read = (from: FastifyRequest) =>
    new Promise<Buffer>((resolve, reject) =>
      bodies.read(from, (error, body) => (error ? reject(error) : resolve(body ?? Buffer.alloc(0)))),
    )
  const held = () => [budget.uploads.held.total, budget.requests.held.total]
  return { budget, bodies, request, read, held }
}

test('a body counts as an upload, then as a request, then as one that waits, and then no more', async () => {
  const { bodies, request, read, held } = start()
  const length = 300_000
  const { raw, request: given } = request({ 'content-length': String(length) })
  assert.equal(await bodies.admit(given), null)
  assert.deepEqual(held(), [uploadBytes(length), 0])
  const body = read(given)
  for (let piece = 0; piece < 3; piece++) raw.write(Buffer.alloc(length / 3, 'x'))
  raw.end()
  assert.equal((await body).length, length)
  assert.deepEqual(held(), [0, requestBytes(length)])
  bodies.wait(given)
  assert.deepEqual(held(), [0, waitingRequestBytes(length)])
  for (let called = 0; called < 2; called++) {
    bodies.release(given)
    assert.deepEqual(held(), [0, 0])
  }
})

test('a client that hangs up while its body waits for memory holds none later', async () => {
  const { budget, bodies, request, read, held } = start()
  // The other accounts use all memory for large bodies.
  const others: [string, number][] = []
  for (let other = 0; budget.uploads.tryReserve(`other ${other}`, MIB) === 'granted'; other++)
    others.push([`other ${other}`, MIB])
  const { raw, request: given } = request({ 'transfer-encoding': 'chunked' })
  assert.equal(await bodies.admit(given), null)
  void read(given).catch(() => {})
  raw.write(Buffer.alloc(20_000, 'x'))
  await setImmediate()
  assert.equal(budget.uploads.waiting.total > 0, true, 'it waits')
  raw.destroy()
  bodies.release(given)
  for (const [account, bytes] of others) budget.uploads.release(account, bytes)
  await setImmediate()
  assert.deepEqual(held(), [0, 0])
})
