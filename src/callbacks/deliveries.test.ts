import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DueCallback } from '../store/callback-store.ts'
import { Deliveries } from './deliveries.ts'
import { Receiver } from './receiver-limit.ts'

const ACCOUNT = 'acme'
const ORIGIN = 'https://a.example.com'

function callback(jobId: string, attempt = 1): DueCallback {
  const url = `${ORIGIN}/hook`
  return { jobId, attempt, tries: 1, account: ACCOUNT, url, bodyBytes: 1, owedSinceMs: 0 }
}

function start() {
  const deliveries = new Deliveries()
  const receiver = new Receiver(ACCOUNT, ORIGIN, 8)
  /**
   * The counts of both delivery queues: occupied slots, unproven, waiting, waiting for the receiver, and attempts to the
   * receiver and its origin.
   */
  const counts = () =>
    (['first', 'retry'] as const).map((queue) => {
      const { occupied, unproven, waiting, waitingByReceiver, toReceiver, toOrigin } =
        deliveries.inFlight(queue)
      const ofReceiver = waitingByReceiver.get(receiver)?.size ?? 0
      const own = [occupied, unproven, waiting].map((counted) => counted.of(ACCOUNT))
      return [...own, ofReceiver, toReceiver.of(receiver), toOrigin.of(ORIGIN)]
    })
  return { deliveries, receiver, counts }
}

test('the counts follow the states of a delivery', () => {
  const { deliveries, receiver, counts } = start()
  const none = [0, 0, 0, 0, 0, 0]
  const delivery = deliveries.add(callback('a'), 'first', receiver)
  assert.deepEqual(counts(), [none, none])
  deliveries.move(delivery, 'waiting')
  assert.deepEqual(counts(), [[0, 0, 1, 1, 0, 0], none])
  deliveries.move(delivery, 'sending')
  assert.deepEqual(counts(), [
    [1, 1, 0, 0, 1, 1],
    [0, 0, 0, 0, 1, 1],
  ])
  // Whether an attempt counts as unproven is decided when it begins.
  receiver.learn('coping')
  deliveries.move(delivery, 'recording')
  assert.deepEqual(counts(), [[1, 0, 0, 0, 0, 0], none])
  deliveries.remove(delivery)
  deliveries.remove(delivery)
  assert.deepEqual(counts(), [none, none])
})

test('both delivery queues share the capacity of a receiver, and nothing else', () => {
  const { deliveries, receiver, counts } = start()
  for (const queue of ['first', 'retry'] as const) {
    deliveries.move(deliveries.add(callback(queue), queue, receiver), 'sending')
  }
  assert.deepEqual(counts(), [
    [1, 1, 0, 0, 2, 2],
    [1, 1, 0, 0, 2, 2],
  ])
})

test('deliveries wait in the order in which they came', () => {
  const { deliveries, receiver } = start()
  const added = ['b', 'a', 'c'].map((jobId) => deliveries.add(callback(jobId), 'retry', receiver))
  for (const delivery of added) deliveries.move(delivery, 'waiting')
  assert.deepEqual([...(deliveries.waiting('retry').get(receiver) ?? [])], added)
  assert.equal(deliveries.waiting('first').size, 0)
})

test('a callback that is claimed again continues under the attempt of the new claim', () => {
  const { deliveries, receiver } = start()
  assert.equal(deliveries.renew(callback('a')), false)
  const delivery = deliveries.add(callback('a'), 'first', receiver)
  assert.equal(deliveries.renew(callback('a', 2)), true)
  assert.equal(delivery.attempt, 2)
  deliveries.remove(delivery)
  assert.equal(deliveries.renew(callback('a', 3)), false)
})

test('a delivery is removed once, so that its end does not remove one of the same callback claimed since', () => {
  const { deliveries, receiver } = start()
  const old = deliveries.add(callback('a'), 'first', receiver)
  deliveries.remove(old)
  const current = deliveries.add(callback('a', 2), 'first', receiver)
  deliveries.remove(old)
  assert.equal(deliveries.renew(callback('a', 3)), true)
  assert.equal(current.attempt, 3)
})
