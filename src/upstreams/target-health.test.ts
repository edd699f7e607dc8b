/** Tests which accounts cannot use a target after calls of several accounts. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { FAILED_JOBS_TO_OPEN, FIRST_CHECK_MS } from './circuit-breaker.ts'
import type { Trouble } from './model-server.ts'
import { MAX_ACCOUNTS, TargetHealth } from './target-health.ts'

const FAILING: Trouble = { kind: 'failing', status: 500, message: 'internal error' }
const REFUSED: Trouble = { kind: 'unreachable', status: null, message: 'ECONNREFUSED' }

/**
 * Plays steps and returns what follows from them. Each step is one or two words and an account: `5 fail a` (five jobs fail),
 * `fail a` (one), `refused a`, `retry a` (Retry-After of 30 s), `succeed a`, `give up a`, `check ok`, `check fails`, `3 s`
 * (time passes).
 */
function play(steps: string) {
  const clock = new FakeClock()
  const reports: (Trouble | null)[] = []
  const health = new TargetHealth(clock, () => 0.5, {
    // The tests report the results of checks themselves.
    check: () => new Promise(() => {}),
    changed: () => {},
    reported: (trouble) => reports.push(trouble),
  })
  let jobs = 0
  const fail = (account: string, trouble: Trouble, retryAfterMs: number | null = null) => {
    jobs += 1
    health.began(account, `job ${jobs}`)
    health.ended(account, `job ${jobs}`, { kind: 'failure', retryAfterMs, trouble })
  }
  const succeed = (account: string) => {
    assert.equal(health.isOpen(account), false)
    health.began(account, 'a job')
    health.ended(account, 'a job', { kind: 'success' })
  }
  for (const step of steps.split(', ')) {
    const words = step.split(' ')
    const times = Number(words[0]) || 1
    const account = words.at(-1) ?? ''
    if (step.endsWith(' s')) clock.advance(times * 1000)
    else if (step === 'check ok') health.checked(null)
    else if (step === 'check fails') health.checked(REFUSED)
    else if (step.startsWith('give up')) health.giveUp(account, FAILING, 0)
    else if (step.startsWith('retry')) fail(account, FAILING, 30_000)
    else if (step.startsWith('succeed')) succeed(account)
    else for (let n = 0; n < times; n++) fail(account, step.includes('refused') ? REFUSED : FAILING)
  }
  const who = health.all.isOpen
    ? 'all'
    : ['a', 'b', 'c'].filter((account) => health.isOpen(account)).join(' ')
  return { clock, health, reports, who, fail, succeed }
}

describe('a target', () => {
  for (const [steps, who] of [
    ['5 fail a', 'a'],
    ['300 fail a', 'a'],
    ['4 fail a, succeed a, 4 fail a', ''],
    ['fail a, give up a', 'a'],
    ['fail a, succeed a, give up a', ''],
    ['retry a', 'a'],
    ['retry a, retry b', 'all'],
    ['4 fail a, 4 fail b, 4 fail c', ''],
    ['5 fail a, 5 fail b', 'all'],
    ['5 fail a, 4 fail b', 'a'],
    ['5 fail a, fail b, give up b', 'all'],
    // Other accounts are answered between the failures of the second account, so these are its own fault.
    ['5 fail a, 4 fail b, succeed c, fail b', 'a b'],
    ['5 fail a, succeed c, 5 fail b', 'a b'],
    // An outage begins while the calls of an account fail anyway. The next account whose calls fail shows the outage.
    ['5 fail a, succeed d, 5 fail b, 5 fail c', 'all'],
    ['5 refused a', 'all'],
    ['4 refused a, succeed b, refused a', 'a'],
    ['5 fail a, 1 s, check fails', 'all'],
    // The account recovered before the check ended.
    ['4 fail a, succeed a, check fails', ''],
    ['5 fail a, 1 s, check ok', ''],
    ['5 fail a, 1 s, check ok, fail a', 'a'],
    ['5 fail a, 1 s, check ok, fail a, 2 s, check ok, succeed a', ''],
    ['5 fail a, 5 fail b, 1 s, check ok', ''],
    // Retry-After concerns the account that got it, even while all accounts wait.
    ['5 fail a, 5 fail b, retry c, 1 s, check ok', 'c'],
    // A failed trial keeps the target unavailable to all accounts. The account of the trial waits for its own trial after the
    // next check.
    ['5 fail a, 5 fail b, 1 s, check ok, fail c', 'all'],
    ['5 fail a, 5 fail b, 1 s, check ok, succeed c', ''],
  ] as const) {
    it(`is unavailable to ${who || 'nobody'} after: ${steps}`, () => assert.equal(play(steps).who, who))
  }

  it('keeps what the accounts need to prove after a trial of another one', () => {
    const { health } = play('5 fail a, 5 fail b, 1 s, check ok, succeed c')
    assert.equal(health.all.phase, 'available')
    const allowances = [...health.accounts].map(([account, { allowance }]) => [account, allowance])
    assert.deepEqual(allowances, [
      ['a', 1],
      ['b', 1],
    ])
  })

  it('is unavailable to all after a job could not connect in all its tries', () => {
    const { health } = play('refused a')
    health.giveUp('a', REFUSED, 0)
    assert.equal(health.all.phase, 'unavailable')
  })

  it('blocks only as long as the shorter Retry-After of two accounts', () => {
    const { health } = play('5 fail a, retry b')
    assert.equal(health.all.untilCheckMs, FIRST_CHECK_MS)
  })

  it('waits for Retry-After of an account although it answers checks meanwhile', () => {
    const { health, clock } = play('retry a, 5 fail b, 1 s, check ok, succeed c')
    assert.equal(health.isOpen('a'), true)
    clock.advance(29_000)
    assert.equal(health.nextCheckMs, 0)
    health.checked(null)
    assert.equal(health.isOpen('a'), false)
  })

  it('waits for a Retry-After that arrives while all wait', () => {
    const { health } = play('5 fail a, 5 fail b, retry c, 1 s, check ok, succeed d')
    assert.deepEqual([health.isOpen('d'), health.isOpen('c')], [false, true])
  })

  it('is checked at growing intervals for one account, and then for all', () => {
    const { health, clock } = play('5 fail a')
    const pauses = Array.from({ length: 6 }, () => {
      const ms = health.nextCheckMs
      clock.advance(ms ?? 0)
      health.checked(REFUSED)
      return ms
    })
    assert.deepEqual(pauses, [1000, 2000, 2000, 4000, 4000, 4000])
  })

  it('is reported once no call succeeds, and again once one does', () => {
    const { reports, succeed } = play('5 fail a')
    assert.deepEqual(reports, [FAILING])
    succeed('b')
    assert.deepEqual(reports, [FAILING, null])
  })

  it('permits another trial when one was aborted, of an account as of all', () => {
    for (const [steps, account] of [
      ['5 fail a, 1 s, check ok', 'a'],
      ['5 refused a, 1 s, check ok', 'b'],
    ] as const) {
      const { health } = play(steps)
      health.began(account, 'trial')
      assert.equal(health.isOpen(account), true)
      health.ended(account, 'trial', { kind: 'ignored' })
      assert.equal(health.isOpen(account), false)
    }
  })

  it('has been unavailable to an account since its own calls failed, although it is to all by now', () => {
    const { health, clock } = play('5 fail a, 10 s, 5 refused b')
    const agoMs = (account: string) => clock.nowMs() - (health.unavailableSinceMs(account) ?? 0)
    assert.deepEqual([agoMs('a'), agoMs('c')], [10_000, 0])
  })

  it('keeps nothing about an account whose calls succeed', () => {
    assert.equal(play('succeed a, succeed b').health.accounts.size, 0)
    const { health } = play('fail a')
    health.ended('a', 'job 1', { kind: 'success' })
    assert.equal(health.accounts.size, 0)
  })

  it('remembers a bounded number of accounts', () => {
    const { health, fail } = play('fail a')
    for (let n = 0; n < MAX_ACCOUNTS; n++) fail(`account ${n}`, FAILING)
    assert.deepEqual([health.accounts.size, health.accounts.has('a')], [MAX_ACCOUNTS, false])
  })

  it('knows which jobs failed again although others succeeded in between', () => {
    const { health, succeed } = play('fail b')
    const failJob = () => health.ended('a', 'job', { kind: 'failure', retryAfterMs: null, trouble: FAILING })
    const isKnown = () => health.succeededBetweenFailuresOf('a', 'job')
    failJob()
    failJob()
    assert.equal(isKnown(), false)
    succeed('b')
    failJob()
    assert.equal(isKnown(), true)
    failJob()
    assert.equal(isKnown(), false)
  })

  it('learns nothing from calls that were in progress when it became unavailable for all', () => {
    const { health, fail } = play('5 refused a')
    for (let n = 0; n < FAILED_JOBS_TO_OPEN; n++) fail('b', FAILING)
    assert.equal(health.accounts.get('b')?.phase, 'available')
  })
})
