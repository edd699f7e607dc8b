import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Stop, type StopListener } from '../job/stop.ts'
import { Semaphore } from './semaphore.ts'

const never = new Stop()

class CountedStop extends Stop {
  listening = 0
  override listen(listener: StopListener): void {
    this.listening += 1
    super.listen(listener)
  }
  override unlisten(listener: StopListener): void {
    this.listening -= 1
    super.unlisten(listener)
  }
}

describe('a gate', () => {
  it('lets in up to its limit at once, the others in the order they came', async () => {
    const gate = new Semaphore(2)
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

  it('lets a waiter go when its signal stops it, and nobody else', async () => {
    const gate = new Semaphore(1)
    const stop = new Stop()
    assert.equal(gate.enter(never), true)
    const gone = gate.enter(stop)
    const stays = gate.enter(never)
    stop.now('give back')
    assert.equal(await gone, false)
    assert.equal(gate.waiting, 1)
    gate.leave()
    assert.equal(await stays, true)
    assert.equal(gate.inside, 1)
    assert.equal(gate.enter(stop), false)
  })

  it('keeps a place for whoever was let in before its signal stopped it', async () => {
    const gate = new Semaphore(1)
    const stop = new CountedStop()
    assert.equal(gate.enter(never), true)
    const waiting = gate.enter(stop)
    gate.leave()
    assert.equal(stop.listening, 0)
    stop.now('give back')
    assert.equal(await waiting, true)
    assert.equal(gate.inside, 1)
  })
})
