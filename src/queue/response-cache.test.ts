import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Turns } from './response-cache.ts'

test('each gets a turn of its own, in the order of asking, and others are handled in between', async () => {
  const turns = new Turns()
  const order: string[] = []
  const other = (round: number) => {
    order.push(`other ${round}`)
    if (round < 3) setImmediate(other, round + 1)
  }
  setImmediate(other, 1)
  await Promise.all(['a', 'b', 'c'].map((name) => turns.next().then(() => order.push(name))))
  assert.deepEqual(order, ['other 1', 'a', 'other 2', 'b', 'other 3', 'c'])
})
