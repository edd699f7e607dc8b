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

describe('a semaphore', () => {
  it('grants slots up to its limit at once, and then in the order of arrival', async () => {
    const semaphore = new Semaphore(2)
    assert.equal(semaphore.tryAcquire(), true)
    assert.equal(semaphore.tryAcquire(), true)
    const order: string[] = []
    const waits = ['a', 'b', 'c'].map(async (name) => {
      assert.equal(await semaphore.acquire(never), true)
      order.push(name)
    })
    assert.deepEqual([semaphore.held, semaphore.waiting], [2, 3])
    semaphore.release()
    semaphore.release()
    semaphore.release()
    await Promise.all(waits)
    assert.deepEqual(order, ['a', 'b', 'c'])
    assert.deepEqual([semaphore.held, semaphore.waiting], [2, 0])
    semaphore.release()
    semaphore.release()
    assert.equal(semaphore.held, 0)
  })

  it('removes a waiter when its signal stops, and no other waiter', async () => {
    const semaphore = new Semaphore(1)
    const stop = new Stop()
    assert.equal(semaphore.tryAcquire(), true)
    const stopped = semaphore.acquire(stop)
    const waiting = semaphore.acquire(never)
    stop.now('release')
    assert.equal(await stopped, false)
    assert.equal(semaphore.waiting, 1)
    semaphore.release()
    assert.equal(await waiting, true)
    assert.equal(semaphore.held, 1)
    assert.equal(await semaphore.acquire(stop), false)
  })

  it('keeps the slot of a waiter that acquired it before its signal stopped', async () => {
    const semaphore = new Semaphore(1)
    const stop = new CountedStop()
    assert.equal(semaphore.tryAcquire(), true)
    const waiting = semaphore.acquire(stop)
    semaphore.release()
    assert.equal(stop.listening, 0)
    stop.now('release')
    assert.equal(await waiting, true)
    assert.equal(semaphore.held, 1)
  })
})
