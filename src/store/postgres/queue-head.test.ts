import assert from 'node:assert/strict'
import { test } from 'node:test'
import { QueueHead } from './queue-head.ts'

/** A line whose next walk over the whole of it is far off. */
function walked(): QueueHead {
  const line = new QueueHead()
  line.end(line.begin(0), null, 0)
  return line
}

test('a walk begins at the turn claimed last', () => {
  const line = walked()
  line.end(line.begin(1), 5000, 1)
  assert.deepEqual([line.begin(2).fromTurn, line.turn], [5000, 5000])
})

test('a job that was queued before that is not passed over, also when it was queued during the walk', () => {
  const line = walked()
  line.end(line.begin(1), 5000, 1)
  line.joined(3000)
  const walk = line.begin(2)
  assert.equal(walk.fromTurn, 3000)
  line.joined(2000)
  line.end(walk, 6000, 2)
  assert.equal(line.begin(3).fromTurn, 2000)
})

test('a walk that claimed nothing moves nothing', () => {
  const line = walked()
  line.end(line.begin(1), 5000, 1)
  line.end(line.begin(2), null, 2)
  assert.equal(line.begin(3).fromTurn, 5000)
})

test('what walks passed over is found by the next walk that passes nothing over', () => {
  const line = walked()
  line.end(line.begin(1), 1000, 1)
  line.end(line.begin(2, true), 5000, 2)
  const second = line.begin(3, true)
  assert.equal(second.fromTurn, 5000)
  line.end(second, 6000, 3)
  const next = line.begin(4)
  assert.equal(next.fromTurn, 1000)
  line.end(next, 6000, 4)
  assert.equal(line.begin(5).fromTurn, 6000)
})

test('every second the whole queue is walked, and less often if that takes long', () => {
  const line = walked()
  line.end(line.begin(1), 5000, 1)
  const whole = line.begin(1000)
  assert.deepEqual([whole.fromTurn, whole.whole], [0, true])
  line.end(whole, null, 1100)
  assert.equal(line.begin(3099).whole, false)
  assert.equal(line.begin(3100).whole, true)
})

test('a job that is queued gets no lesser turn than any node has claimed', () => {
  const line = walked()
  line.reached(7000)
  assert.equal(line.turn, 7000)
  line.reached(6000)
  assert.equal(line.turn, 7000)
})
