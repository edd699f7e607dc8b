/** Tests responses as undici delivers them: in pieces, late, and paused because other responses are large. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Dispatcher } from 'undici'
import { FakeClock } from '../../test/fake-clock.ts'
import { Stop } from '../job/stop.ts'
import { FairSlots } from '../sharing/fair-slots.ts'
import { Call, type CallEnd, LARGE_ANSWER_BYTES } from './call.ts'

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

function start(
  largeAnswers = new FairSlots({ limit: 1, reserve: 0 }),
  clock = new FakeClock(),
  signal = new Stop(),
) {
  const limits = { clock, timeoutMs: 1000, maxAnswerBytes: 1_000_000, largeAnswers }
  const call = new Call(limits, 'acme', signal)
  const controller = new Controller()
  return {
    ended: call.ended,
    controller,
    begin: () => call.onRequestStart(controller),
    headers: (status = 200) => call.onResponseStart(controller, status, {}),
    data: (bytes: string | Buffer) => call.onResponseData(controller, Buffer.from(bytes)),
    end: () => call.onResponseEnd(),
    fail: (error: Error) => call.onResponseError(controller, error),
  }
}

function textOf(end: CallEnd): string | null {
  return end.kind === 'response' ? (end.body?.toString('utf8') ?? null) : end.kind
}

const large = 'x'.repeat(LARGE_ANSWER_BYTES + 1)
const microtasks = () => new Promise((resolve) => setImmediate(resolve))

describe('a response', () => {
  it('is assembled from pieces of any size, split anywhere in a character', async () => {
    const text = 'añ\u{1F600}'.repeat(20_000)
    const bytes = Buffer.from(text)
    // Runs of small pieces between the large ones exceed a block.
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

  it('is not a 1xx response', async () => {
    const call = start()
    call.begin()
    call.headers(103)
    call.headers(200)
    call.data('yes')
    call.end()
    assert.equal(textOf(await call.ended), 'yes')
    const reset = start()
    reset.begin()
    reset.headers(103)
    reset.fail(new Error('reset'))
    assert.deepEqual(await reset.ended, { kind: 'connection error', status: null, code: 'Error' })
  })

  it('after the end of the call has no effect', async () => {
    const clock = new FakeClock()
    const call = start(new FairSlots({ limit: 1, reserve: 0 }), clock)
    call.begin()
    call.headers()
    clock.advance(1000)
    call.data('late')
    call.end()
    call.fail(new Error('later'))
    assert.deepEqual(await call.ended, { kind: 'timed out', status: 200 })
    assert.equal(call.controller.aborted, true)
  })

  it('is not awaited after an abort: the connection is closed when it is established', async () => {
    const stop = new Stop()
    const call = start(new FairSlots({ limit: 1, reserve: 0 }), new FakeClock(), stop)
    stop.now('release')
    assert.deepEqual(await call.ended, { kind: 'aborted' })
    call.begin()
    assert.equal(call.controller.aborted, true)
  })

  it('is paused while it and another one are large, and resumes when the other has ended', async () => {
    const slots = new FairSlots({ limit: 1, reserve: 0 })
    const [first, second] = [start(slots), start(slots)]
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
    assert.deepEqual([slots.held.total, slots.waiting.total], [0, 0])
  })

  it('that ends while it is paused releases its slot, even if it acquires it at that moment', async () => {
    const slots = new FairSlots({ limit: 1, reserve: 0 })
    const [first, second, third] = [start(slots), start(slots), start(slots)]
    for (const call of [first, second, third]) {
      call.begin()
      call.headers()
      call.data(large)
    }
    second.fail(new Error('reset'))
    assert.equal(slots.waiting.total, 1)
    first.end()
    third.fail(new Error('reset'))
    await microtasks()
    assert.deepEqual([slots.held.total, slots.waiting.total], [0, 0])
  })
})
