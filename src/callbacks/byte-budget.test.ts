import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { ByteBudget, type Free, SMALL_BODY_BYTES } from './byte-budget.ts'

const MIB = 1024 * 1024
const MAX_WAIT_MS = 15_000

function start() {
  const clock = new FakeClock()
  return { clock, budget: new ByteBudget({ maxBytes: 8 * MIB, maxWaitMs: MAX_WAIT_MS, clock }) }
}

/** What has become of a reservation so far. */
async function stateOf(
  reservation: Promise<Free | null> | Free | null,
): Promise<'held' | 'rejected' | 'waits'> {
  const first = await Promise.race([
    reservation,
    new Promise<'waits'>((resolve) => setImmediate(resolve, 'waits')),
  ])
  if (first === 'waits') return 'waits'
  return first === null ? 'rejected' : 'held'
}

test('bytes are granted up to the budget, and to the next that waits when some are freed', async () => {
  const { budget } = start()
  const first = budget.reserve('one', 4 * MIB)
  await budget.reserve('two', 4 * MIB)
  const third = budget.reserve('three', MIB)
  assert.equal(await stateOf(third), 'waits')
  const free = await first
  free?.()
  assert.equal(await stateOf(third), 'held')
  free?.()
  assert.equal(await stateOf(budget.reserve('three', 4 * MIB)), 'waits', 'freed twice, counted once')
})

test('one account may hold half of the budget, and does not delay another', async () => {
  const { budget } = start()
  await budget.reserve('one', 3 * MIB)
  const more = budget.reserve('one', 3 * MIB)
  assert.equal(await stateOf(budget.reserve('two', 3 * MIB)), 'held')
  assert.equal(await stateOf(more), 'waits')
})

test('a body larger than the budget is held alone, and is not overtaken forever', async () => {
  const { budget } = start()
  const small = await budget.reserve('one', MIB)
  const large = budget.reserve('two', 20 * MIB)
  const later = budget.reserve('three', MIB)
  assert.deepEqual([await stateOf(large), await stateOf(later)], ['waits', 'waits'])
  small?.()
  assert.deepEqual([await stateOf(large), await stateOf(later)], ['held', 'waits'])
  ;(await large)?.()
  assert.equal(await stateOf(later), 'held')
})

test('small bodies never wait', async () => {
  const { budget } = start()
  await budget.reserve('one', 20 * MIB)
  for (let count = 0; count < 1000; count++) await budget.reserve('one', SMALL_BODY_BYTES)
})

test('a body that has waited for too long is rejected, and those behind it continue', async () => {
  const { budget, clock } = start()
  await budget.reserve('one', MIB)
  const large = budget.reserve('two', 20 * MIB)
  clock.advance(MAX_WAIT_MS - 1)
  const behind = budget.reserve('three', MIB)
  clock.advance(1)
  assert.deepEqual([await stateOf(large), await stateOf(behind)], ['rejected', 'held'])
})

test('a closed budget rejects every body, including those that wait', async () => {
  const { budget } = start()
  await budget.reserve('one', 20 * MIB)
  const waits = budget.reserve('two', MIB)
  budget.close()
  assert.equal(await stateOf(waits), 'rejected')
  assert.equal(await stateOf(budget.reserve('two', 1)), 'rejected')
})
