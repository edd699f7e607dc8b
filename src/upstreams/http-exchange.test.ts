import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Dispatcher } from 'undici'
import { FakeClock } from '../../test/fake-clock.ts'
import { Stop } from '../job/stop.ts'
import { type Ended, exchange, LARGE_ANSWER_BYTES } from './http-exchange.ts'
import { Semaphore } from './semaphore.ts'

/** Hands out its handlers, so that a test plays the server by hand and knows what has been read. */
class ByHand extends Dispatcher {
  readonly handlers: Dispatcher.DispatchHandler[] = []

  override dispatch(_options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.handlers.push(handler)
    return true
  }
}

class Controller implements Dispatcher.DispatchController {
  paused = false
  aborted = false
  reason: Error | null = null

  abort(reason: Error): void {
    this.aborted = true
    this.reason = reason
  }

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
  }
}

function start(largeAnswers = new Semaphore(1), clock = new FakeClock(), signal = new Stop()) {
  const hand = new ByHand()
  const limits = { clock, timeoutMs: 1000, maxAnswerBytes: 1_000_000, largeAnswers }
  const ended = exchange(hand, { method: 'POST', path: '/' }, limits, signal)
  const controller = new Controller()
  const handler = hand.handlers[0] ?? {}
  return {
    ended,
    controller,
    begin: () => handler.onRequestStart?.(controller, null),
    headers: (status = 200) => handler.onResponseStart?.(controller, status, {}),
    data: (bytes: string | Buffer) => handler.onResponseData?.(controller, Buffer.from(bytes)),
    end: () => handler.onResponseEnd?.(controller, {}),
    fail: (error: Error) => handler.onResponseError?.(controller, error),
  }
}

function textOf(ended: Ended): string | null {
  return ended.kind === 'response' ? ended.text : ended.kind
}

const large = 'x'.repeat(LARGE_ANSWER_BYTES + 1)
const microtasks = () => new Promise((resolve) => setImmediate(resolve))

describe('an exchange', () => {
  it('puts a body together from pieces of any size, cut anywhere in a character', async () => {
    const text = 'añ\u{1F600}'.repeat(20_000)
    const bytes = Buffer.from(text)
    // Runs of small pieces that outgrow a block, between large ones.
    const sizes = [1, 3, 1, 1, 5_000, 16_384, 7, 2_048, 1, ...Array.from({ length: 20 }, () => 2_047), 1]
    const call = start()
    call.begin()
    call.headers()
    let at = 0
    for (let n = 0; at < bytes.length; n++) {
      const size = sizes[n % sizes.length] ?? 1
      call.data(bytes.subarray(at, at + size))
      at += size
    }
    call.end()
    assert.equal(textOf(await call.ended), text)
  })

  it('takes no 1xx for the response', async () => {
    const call = start()
    call.begin()
    call.headers(103)
    call.headers(200)
    call.data('yes')
    call.end()
    assert.equal(textOf(await call.ended), 'yes')
    const broken = start()
    broken.begin()
    broken.headers(103)
    broken.fail(new Error('reset'))
    assert.deepEqual(await broken.ended, { kind: 'broken', status: null, code: 'Error' })
  })

  it('is ended once: what comes after changes nothing', async () => {
    const clock = new FakeClock()
    const call = start(new Semaphore(1), clock)
    call.begin()
    call.headers()
    clock.advance(1000)
    call.data('late')
    call.end()
    call.fail(new Error('later'))
    assert.deepEqual(await call.ended, { kind: 'timed_out', status: 200 })
    assert.equal(call.controller.aborted, true)
  })

  it('given up while it waits for a connection closes that connection when it comes', async () => {
    const stop = new Stop()
    const call = start(new Semaphore(1), new FakeClock(), stop)
    stop.now('give back')
    assert.deepEqual(await call.ended, { kind: 'aborted' })
    call.begin()
    assert.equal(call.controller.aborted, true)
  })

  it('rests when its body is large and another is, and goes on when that one has ended', async () => {
    const gate = new Semaphore(1)
    const [first, second] = [start(gate), start(gate)]
    for (const call of [first, second]) {
      call.begin()
      call.headers()
      call.data(large)
    }
    assert.equal(first.controller.paused, false)
    assert.equal(second.controller.paused, true)
    first.end()
    assert.equal(second.controller.paused, true, 'never inside the callback of another response')
    await microtasks()
    assert.equal(second.controller.paused, false)
    second.end()
    assert.equal(textOf(await second.ended), large)
    assert.deepEqual([gate.inside, gate.waiting], [0, 0])
  })

  it('that ends while it rests gives up its turn, even in the moment it comes', async () => {
    const gate = new Semaphore(1)
    const [first, second, third] = [start(gate), start(gate), start(gate)]
    for (const call of [first, second, third]) {
      call.begin()
      call.headers()
      call.data(large)
    }
    second.fail(new Error('reset'))
    assert.equal(gate.waiting, 1)
    first.end()
    third.fail(new Error('reset'))
    await microtasks()
    assert.deepEqual([gate.inside, gate.waiting], [0, 0])
  })
})
