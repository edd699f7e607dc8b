import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, it } from 'node:test'
import { Gate } from './gate.ts'

const never = new AbortController().signal

describe('a gate', () => {
  it('lets in up to its limit at once, the others in the order they came', async () => {
    const gate = new Gate(2)
    assert.equal(gate.enter(never), true)
    assert.equal(gate.enter(never), true)
    const order: string[] = []
    const waits = ['a', 'b', 'c'].map(async (name) => {
      assert.equal(await gate.enter(never), true)
      order.push(name)
    })
    assert.deepEqual([gate.inside, gate.waiting], [2, 3])
    gate.leave()
    gate.leave()
    gate.leave()
    await Promise.all(waits)
    assert.deepEqual(order, ['a', 'b', 'c'])
    assert.deepEqual([gate.inside, gate.waiting], [2, 0])
    gate.leave()
    gate.leave()
    assert.equal(gate.inside, 0)
  })

  it('lets a waiter go when its signal aborts, and nobody else', async () => {
    const gate = new Gate(1)
    const controller = new AbortController()
    assert.equal(gate.enter(never), true)
    const gone = gate.enter(controller.signal)
    const stays = gate.enter(never)
    controller.abort()
    assert.equal(await gone, false)
    assert.equal(gate.waiting, 1)
    gate.leave()
    assert.equal(await stays, true)
    assert.equal(gate.inside, 1)
    assert.equal(gate.enter(AbortSignal.abort()), false)
  })

  it('keeps a place for whoever was let in before its signal aborted', async () => {
    const gate = new Gate(1)
    const controller = new AbortController()
    assert.equal(gate.enter(never), true)
    const waiting = gate.enter(controller.signal)
    gate.leave()
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
    controller.abort()
    assert.equal(await waiting, true)
    assert.equal(gate.inside, 1)
  })
})
