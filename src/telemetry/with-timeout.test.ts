/** Asking what may fail or hang: nobody waits for long, and what hangs is asked once. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { TIMEOUT_MS, withTimeout } from './with-timeout.ts'

test('an answer is handed on, and the next question is asked anew', async () => {
  const clock = new FakeClock()
  let asked = 0
  const ask = withTimeout(clock, async () => ++asked)
  assert.deepEqual(await Promise.all([ask(), ask()]), [1, 1])
  assert.equal(await ask(), 2)
  assert.deepEqual(clock.pending(), [])
})

test('a failure is no answer, and the next question is asked anew', async () => {
  let asked = 0
  const ask = withTimeout(new FakeClock(), async () => {
    asked += 1
    if (asked === 1) throw new Error('it is gone')
    return 'back'
  })
  assert.equal(await ask(), null)
  assert.equal(await ask(), 'back')
})

test('what hangs is given up, and is not asked again before it has ended', async () => {
  const clock = new FakeClock()
  const first = Promise.withResolvers<string>()
  let asked = 0
  const ask = withTimeout(clock, () => {
    asked += 1
    return asked === 1 ? first.promise : Promise.resolve('soon')
  })
  const early = ask()
  clock.advance(TIMEOUT_MS - 1)
  const late = ask()
  clock.advance(1)
  assert.equal(await early, null)
  first.resolve('at last')
  assert.equal(await late, 'at last')
  assert.equal(asked, 1)
  assert.equal(await ask(), 'soon')
})
