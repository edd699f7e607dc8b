/** Tests SIGTERM while callbacks are being sent to a receiver that does not respond. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type ReceiverReply, startReceiver } from '../receiver.ts'
import { callbackTo } from './callback-ledger.ts'
import { idsOf } from './caller.ts'
import { installation } from './server-process.ts'

const timeout = 90_000
const DRAIN_WITHIN_MS = 30_000
/**
 * These callbacks are answered first, so that the receiver is allowed as many concurrent attempts as there are callbacks that
 * stall.
 */
const ANSWERED = 20
const STALLED = 8

test('SIGTERM while callbacks are in flight to a receiver that stalls: the server ends in time, and the next start delivers them', {
  timeout,
}, async (t) => {
  let reply: ReceiverReply = { kind: 'answer' }
  const receiver = await startReceiver({ reply: () => reply }, t)
  // Each callback has only one attempt, so an attempt that the drain interrupts must not count. The timeout of attempts is
  // never reached.
  const callbacks = { allow_networks: ['127.0.0.0/8'], retry_seconds: [0], timeout_seconds: 3600 }
  const place = await installation(t, { settings: { callbacks } })
  const server = await place.start()
  const key = await server.firstKey()
  const create = async (count: number) => {
    const contents = Array.from({ length: count }, (_, index) => `job ${index}`)
    return idsOf(await server.caller(key).batch(contents, callbackTo(receiver.url)))
  }
  await create(ANSWERED)
  await receiver.received(ANSWERED)
  reply = { kind: 'stall' }
  const ids = await create(STALLED)
  await receiver.received(ANSWERED + STALLED)

  const signalledAt = Date.now()
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  const tookMs = Date.now() - signalledAt
  assert.ok(tookMs <= DRAIN_WITHIN_MS, `the drain took ${tookMs} ms`)

  reply = { kind: 'answer' }
  const next = await place.start()
  const requests = await receiver.received(ANSWERED + 2 * STALLED)
  const again = requests.slice(ANSWERED + STALLED).map(({ headers }) => headers['webhook-id'])
  assert.deepEqual(again.sort(), [...ids].sort())
  assert.deepEqual(await next.stop(), { code: 0, signal: null })
  t.diagnostic(`${STALLED} callbacks cut off, drain ${tookMs} ms`)
})
