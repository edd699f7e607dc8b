import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { type CountTokens, countTokens } from '../tokens/count-tokens.ts'
import { COUNT_EVERY_MS, type ContextShift, ContextShifts } from './context-shift.ts'

const job = { id: 'j', account: 'acme', tier: 'user_max' }
const messagesJson = JSON.stringify([{ role: 'user', content: 'one two three four '.repeat(100) }])

function start(count: (input: CountTokens) => ReturnType<typeof countTokens> = countTokens) {
  const clock = new FakeClock()
  const shifts: ContextShift[] = []
  const errors: unknown[] = []
  let counts = 0
  const watch = new ContextShifts({
    pool: {
      run: (_name, input) => {
        counts++
        return count(input as CountTokens) as never
      },
    },
    clock,
    weightOf: () => 1,
    onShift: (shift) => shifts.push(shift),
    onError: (error) => errors.push(error),
  })
  const check = (promptTokens: number, target: string | null = 'a/m') =>
    watch.check(job, messagesJson, target, promptTokens)
  return { clock, shifts, errors, check, counts: () => counts }
}

test('a count far above that of the server is a shift', async () => {
  const { shifts, check } = start()
  await check(30)
  assert.equal(shifts.length, 1)
  assert.deepEqual([shifts[0]?.jobId, shifts[0]?.target, shifts[0]?.promptTokens], ['j', 'a/m', 30])
  assert.ok((shifts[0]?.counted ?? 0) > 60)
})

test('a count near that of the server is none, nor is a server without a count', async () => {
  const { shifts, check, counts } = start()
  await check(300)
  assert.equal(counts(), 1)
  await check(0, 'b/m')
  await check(30, null)
  assert.equal(counts(), 1)
  assert.deepEqual(shifts, [])
})

test('each target is counted at most once a second, and never twice at the same time', async () => {
  const held: ((counted: { tokens: number; isComplete: boolean }) => void)[] = []
  const { clock, check, counts } = start(() => new Promise((resolve) => held.push(resolve)))
  const first = check(1_000)
  clock.advance(10 * COUNT_EVERY_MS)
  await check(1_000)
  assert.equal(counts(), 1)
  held.pop()?.({ tokens: 1, isComplete: true })
  await first
  const second = check(1_000)
  assert.equal(counts(), 2)
  held.pop()?.({ tokens: 1, isComplete: true })
  await second
  clock.advance(COUNT_EVERY_MS - 1)
  await check(1_000)
  assert.equal(counts(), 2)
  void check(1_000, 'b/m')
  assert.equal(counts(), 3)
  clock.advance(1)
  void check(1_000)
  assert.equal(counts(), 4)
})

test('a count that fails is reported, and the next one is made', async () => {
  const { clock, errors, check, counts } = start(() => Promise.reject(new Error('the thread ended')))
  await check(30)
  assert.equal(errors.length, 1)
  clock.advance(COUNT_EVERY_MS)
  await check(30)
  assert.equal(counts(), 2)
})
