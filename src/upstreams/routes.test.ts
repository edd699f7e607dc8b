/** Tests which routes make jobs wait, and since when, if a route has several targets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import type { Trouble } from './model-server.ts'
import { routeLimits, unavailability } from './routes.ts'
import type { Target } from './routing-table.ts'
import { TargetHealth } from './target-health.ts'

function start() {
  const clock = new FakeClock()
  const target = (name: string) => {
    const health = new TargetHealth(clock, () => 0.5, {
      check: () => new Promise(() => {}),
      changed: () => {},
      reported: () => {},
    })
    return { name, health } as Target
  }
  const [first, second] = [target('a/m'), target('b/n')]
  const fail = ({ name, health }: Target, account = 'acme'): void => {
    const trouble: Trouble = { kind: 'failing', status: 500, message: name }
    health.began(account, 'job')
    health.ended(account, 'job', { kind: 'failure', retryAfterMs: 60_000, trouble })
  }
  const limits = () => routeLimits([{ key: 'a/m b/n', targets: [first, second], waiting: new Set() }])
  return { clock, first, second, fail, limits }
}

for (const [name, order] of [
  ['in their order', ['first', 'second']],
  ['in the other order', ['second', 'first']],
] as const) {
  test(`a route is unavailable to an account since the last of its targets failed, ${name}`, () => {
    const { clock, fail, limits, ...targets } = start()
    fail(targets[order[0]])
    const limitOf = (account: string) => limits().limitedAccounts.get('a/m b/n')?.get(account)
    assert.equal(limitOf('acme'), undefined)
    clock.advance(10_000)
    fail(targets[order[1]])
    assert.deepEqual(limitOf('acme'), {
      allowance: 0,
      failedJobs: ['job'],
      unavailableSinceMs: clock.nowMs(),
      trouble: { kind: 'failing', status: 500, message: 'b/n' },
    })
    const both = [targets.first, targets.second]
    assert.equal(unavailability(both, 'acme').unavailableSinceMs, clock.nowMs())
    assert.equal(unavailability(both, 'other').unavailableSinceMs, null)
    assert.equal(limits().limited.size, 0)
  })
}

test('a route is unavailable to all if each of its targets is', () => {
  const { clock, first, second, fail, limits } = start()
  for (const account of ['acme', 'other']) fail(first, account)
  assert.equal(limits().limited.size, 0)
  clock.advance(10_000)
  for (const account of ['acme', 'other']) fail(second, account)
  const { allowance, unavailableSinceMs } = limits().limited.get('a/m b/n') ?? {}
  assert.deepEqual([allowance, unavailableSinceMs], [0, clock.nowMs()])
})
