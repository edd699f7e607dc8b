import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeferredDeliveries, deferred } from './deferred-deliveries.ts'
import { Deliveries, type Delivery } from './deliveries.ts'
import { Receiver } from './receiver-limit.ts'

const NOW_MS = 1000

function start() {
  const deliveries = new Deliveries()
  const delivery = (jobId: string, receiver: Receiver, attempt = 1): Delivery => {
    const { account, origin: url } = receiver
    const callback = { jobId, attempt, tries: 1, account, url, bodyBytes: 1, owedSinceMs: 0 }
    return deliveries.add(callback, 'first', receiver)
  }
  return { deliveries, delivery, remembered: new DeferredDeliveries() }
}
const receiver = (name = 'a') => new Receiver('acme', `https://${name}.example.com`, 8)

test('a deferred delivery is due again after a minute, and later where the receiver fails', () => {
  const { delivery } = start()
  const to = receiver()
  assert.deepEqual(deferred(delivery('a', to, 3), NOW_MS), {
    jobId: 'a',
    attempt: 3,
    dueAtMs: NOW_MS + 60_000,
  })
  for (let failed = 0; failed < 2; failed++) to.learn('overloaded')
  assert.equal(deferred(delivery('b', to), NOW_MS).dueAtMs, NOW_MS + 600_000)
})

test('deferred deliveries are claimed again by receiver, the one deferred first before the others', () => {
  const { delivery, remembered } = start()
  const [one, other] = [receiver('a'), receiver('b')]
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
  const { deliveries, delivery, remembered } = start()
  const to = receiver()
  const claimed = delivery('a', to, 1)
  deliveries.renew({ ...claimed.callback, attempt: 3 })
  remembered.add([claimed])
  assert.deepEqual(remembered.take(to, 1), [{ jobId: 'a', attempts: 2 }])
})

test('one receiver takes at most half of what is remembered', () => {
  const { delivery, remembered } = start()
  const [one, other] = [receiver('a'), receiver('b')]
  for (let made = 0; made < 50_010; made++) remembered.add([delivery(`one-${made}`, one)])
  remembered.add([delivery('other', other)])
  assert.equal(remembered.take(one, 100_000).length, 50_000)
  assert.equal(remembered.take(other, 1).length, 1)
})
