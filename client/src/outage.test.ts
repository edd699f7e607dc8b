import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { ConnectionError, RateLimitError } from './errors.ts'
import { leveledLogger } from './logger.ts'
import { Outage } from './outage.ts'

const MAX_OUTAGE_MS = 300_000

function start() {
  const clock = new FakeClock()
  const outage = new Outage(clock, leveledLogger(undefined, 'off'))
  const failed = (afterMs: number) => {
    clock.advance(afterMs)
    return outage.failed(new ConnectionError('no response'))
  }
  const limited = (afterMs: number, retryAfter: number) => {
    clock.advance(afterMs)
    return outage.failed(new RateLimitError('too many requests', { retryAfter }))
  }
  return { outage, failed, limited }
}

test('an outage is tolerated for five minutes, with growing pauses', () => {
  const { failed } = start()
  const pauses = [failed(0), failed(1000), failed(1000), failed(1000), failed(1000), failed(1000)]
  for (const [at, ms] of [500, 1000, 2000, 4000, 8000, 8000].entries()) {
    const pauseMs = pauses[at] ?? 0
    assert.ok(pauseMs >= ms / 2 && pauseMs <= ms, `pause ${at}: ${pauseMs}`)
  }
  failed(MAX_OUTAGE_MS - 5000)
  assert.throws(() => failed(1), ConnectionError)
})

test('a success between failures ends an outage, and so does a rate limit, which is none', () => {
  const { outage, failed, limited } = start()
  failed(0)
  outage.over()
  failed(MAX_OUTAGE_MS + 1)
  assert.ok(limited(MAX_OUTAGE_MS, 20) >= 20_000)
  failed(1)
  limited(MAX_OUTAGE_MS, 1)
  limited(MAX_OUTAGE_MS, 1)
  assert.ok(failed(1) <= 500)
})
