import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { SettlementGate } from './write-delay.ts'

/** A gate whose delays end when the test says so; `sent` has the settlements that it let pass. */
function start() {
  const delays: { readonly ms: number; readonly end: () => void }[] = []
  const gate = new SettlementGate((ms, end) => void delays.push({ ms, end }))
  const sent: string[] = []
  const settle = async (name: string, executionMs: number) => {
    const turn = gate.pass(executionMs)
    if (turn !== null) await turn
    sent.push(name)
  }
  return { delays, settle, sent }
}

test('a settlement waits for a hundredth of its execution, and ten milliseconds at most', async () => {
  const { delays, settle, sent } = start()
  await settle('quick', 99)
  assert.deepEqual([delays.length, sent], [0, ['quick']])
  for (const [executionMs, waitMs] of [
    [300, 3],
    [60_000, 10],
  ] as const) {
    const settled = settle(`after ${executionMs} ms`, executionMs)
    assert.deepEqual(delays.at(-1)?.ms, waitMs)
    await setImmediate()
    assert.equal(sent.includes(`after ${executionMs} ms`), false)
    delays.at(-1)?.end()
    await settled
  }
})

test('settlements of the same moment are sent together, after the shortest of their waits', async () => {
  const { delays, settle, sent } = start()
  const settled = [settle('one', 1000), settle('two', 700), settle('three', 900)]
  assert.deepEqual(
    delays.map(({ ms }) => ms),
    [10, 7],
  )
  delays[1]?.end()
  await Promise.all(settled)
  assert.deepEqual(sent, ['one', 'two', 'three'])
  const next = settle('next', 500)
  delays[0]?.end()
  await setImmediate()
  assert.equal(sent.includes('next'), false, 'the delay of an earlier group does not end this one')
  delays[2]?.end()
  await next
})

test('one that does not wait, or makes them many, takes along those that do', async () => {
  const { settle, sent } = start()
  await Promise.all([settle('slow', 1000), settle('quick', 1)])
  assert.deepEqual(sent, ['quick', 'slow'])
  await Promise.all(Array.from({ length: 16 }, (_, index) => settle(`${index}`, 1000)))
  assert.equal(sent.length, 18)
})

test('without delays each is sent at once', () => {
  assert.equal(new SettlementGate(null).pass(60_000), null)
})
