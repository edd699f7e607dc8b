import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DueCallback } from '../store/callback-store.ts'
import { DeferredDeliveries, Deliveries, type Delivery, deferred } from './deliveries.ts'
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
   * Returns for each delivery queue: occupied slots, unproven, waiting, waiting for the receiver, and attempts to the receiver
   * and its origin.
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

const NOW_MS = 1000

function startDeferring() {
  const deliveries = new Deliveries()
  const delivery = (jobId: string, receiver: Receiver, attempt = 1): Delivery => {
    const { account, origin: url } = receiver
    const callback = { jobId, attempt, tries: 1, account, url, bodyBytes: 1, owedSinceMs: 0 }
    return deliveries.add(callback, 'first', receiver)
  }
  return { deliveries, delivery, remembered: new DeferredDeliveries() }
}
const receiverOf = (name = 'a') => new Receiver('acme', `https://${name}.example.com`, 8)

test('a deferred delivery is due again after a minute, and later where the receiver fails', () => {
  const { delivery } = startDeferring()
  const to = receiverOf()
  assert.deepEqual(deferred(delivery('a', to, 3), NOW_MS), {
    jobId: 'a',
    attempt: 3,
    dueAtMs: NOW_MS + 60_000,
  })
  for (let failed = 0; failed < 2; failed++) to.learn('overloaded')
  assert.equal(deferred(delivery('b', to), NOW_MS).dueAtMs, NOW_MS + 600_000)
})

test('deferred deliveries are claimed again by receiver, the one deferred first before the others', () => {
  const { delivery, remembered } = startDeferring()
  const [one, other] = [receiverOf('a'), receiverOf('b')]
  remembered.add([delivery('b', one, 2), delivery('a', one), delivery('c', other), delivery('d', one)])
  assert.deepEqual([...remembered.receivers], [one, other])
  assert.deepEqual(remembered.take(one, 2), [
    { jobId: 'b', attempts: 1 },
    { jobId: 'a', attempts: 0 },
  ])
  assert.deepEqual([remembered.take(one, 2), remembered.take(one, 2)], [[{ jobId: 'd', attempts: 0 }], []])
  assert.deepEqual([...remembered.receivers], [other])
  remembered.take(other, 1)
  assert.ok(remembered.isEmpty)
})

test('a delivery that was claimed again before it was deferred is claimed under its later attempt', () => {
  const { deliveries, delivery, remembered } = startDeferring()
  const to = receiverOf()
  const claimed = delivery('a', to, 1)
  deliveries.renew({ ...claimed.callback, attempt: 3 })
  remembered.add([claimed])
  assert.deepEqual(remembered.take(to, 1), [{ jobId: 'a', attempts: 2 }])
})

test('one receiver takes at most half of what is remembered', () => {
  const { delivery, remembered } = startDeferring()
  const [one, other] = [receiverOf('a'), receiverOf('b')]
  for (let made = 0; made < 50_010; made++) remembered.add([delivery(`one-${made}`, one)])
  remembered.add([delivery('other', other)])
  assert.equal(remembered.take(one, 100_000).length, 50_000)
  assert.equal(remembered.take(other, 1).length, 1)
})
