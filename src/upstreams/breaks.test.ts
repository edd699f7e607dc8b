/** Tests which job a broken connection counts against, and how a job is repeated that may crash its model server. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { Stop } from '../job/stop.ts'
import {
  AVOIDED_BRIEFLY_MS,
  AVOIDED_MS,
  afterBreak,
  type BrokenCall,
  HOLD_MS,
  isIsolated,
  NO_BREAKS,
  SchemaBreaks,
  TargetBreaks,
} from './breaks.ts'

function start() {
  const clock = new FakeClock()
  const others = { areHeld: false }
  const rest = { untilMs: 0 }
  const onHold = (isHeld: boolean) => {
    others.areHeld = isHeld
  }
  const target = () => new TargetBreaks(clock, onHold, rest)
  return { clock, others, breaks: target(), sibling: target(), other: target() }
}

/**
 * Plays steps and returns what the last break shows about its job. Steps are: `start x` (a call of job x starts), `3 start`
 * (calls of three other jobs start), `answer x`, `break x` (the connection of job x breaks), and `check`.
 */
function play(steps: string, isCareful = false) {
  const { breaks } = start()
  const started = new Map<string, number>()
  let last: BrokenCall['blame'] | null = null
  let others = 0
  for (const step of steps.split(', ')) {
    const [first = '', second = ''] = step.split(' ')
    if (step === 'check') breaks.answered(null)
    else if (second === 'start') {
      for (let n = 0; n < Number(first); n++) started.set(`other ${others++}`, breaks.began())
    } else if (first === 'start') started.set(second, breaks.began())
    else {
      if (first === 'answer') breaks.answered(second)
      else {
        const breaksBefore = started.get(second) ?? 0
        last = breaks.broke({ jobId: second, breaksBefore, isCareful, hold: null }).blame
      }
      breaks.ended()
    }
  }
  return last
}

describe('a broken connection', () => {
  for (const [blame, steps] of [
    ['none', 'start x, break x'],
    ['counted', 'start y, answer y, start x, break x'],
    ['none', 'start x, answer x, start x, break x'],
    ['none', 'check, start x, break x'],
    ['none', 'start y, answer y, start x, break x, start x, break x'],
    ['counted', 'start y, answer y, start x, break x, start y, answer y, start x, break x'],
    ['counted', 'start y, answer y, 3 start, start x, break x'],
    ['unexpected', 'start y, answer y, 4 start, start x, break x'],
    // Calls that break together belong to one break, in any order.
    ['counted', 'start y, answer y, start x, start z, break x, break z'],
    ['unexpected', 'start y, answer y, 3 start, start x, start z, break x, break z'],
    // The job survived the first break, and is in progress at the next one.
    ['none', 'start y, answer y, start x, start z, break z, start z, break z, break x'],
  ] as const) {
    it(`shows ${blame}: ${steps}`, () => assert.equal(play(steps), blame))
  }

  it('counts against the only careful job of many', () => {
    assert.equal(play('start y, answer y, 9 start, start x, break x', true), 'counted')
  })
})

describe('a job', () => {
  it('is isolated after two breaks that count, and fails at the third one only if it is certain', () => {
    const event = { inProgress: 1, answered: { job: 'y', several: false, check: false } }
    let breaks = NO_BREAKS
    for (const blame of ['counted', 'unexpected', 'none', 'certain'] as const) {
      assert.equal(isIsolated(breaks), false)
      const { breaks: next, fails } = afterBreak(breaks, { event, blame }, 5)
      assert.equal(fails, false)
      breaks = next
    }
    assert.deepEqual([breaks, isIsolated(breaks)], [{ seen: 4, unexpected: 3, counted: 2, lastMs: 5 }, true])
    assert.equal(afterBreak(breaks, { event, blame: 'counted' }, 5).fails, false)
    assert.equal(afterBreak(breaks, { event, blame: 'certain' }, 5).fails, true)
  })

  it('runs alone once the calls in progress have ended; calls of others wait meanwhile', async () => {
    const { breaks, others } = start()
    breaks.began()
    const holding = breaks.hold(new Stop())
    assert.equal(others.areHeld, true)
    breaks.answered('y')
    breaks.ended()
    const hold = await holding
    assert.ok(hold?.isActive)
    const breaksBefore = breaks.began()
    assert.equal(breaks.broke({ jobId: 'x', breaksBefore, isCareful: false, hold }).blame, 'certain')
    breaks.ended()
    hold.end()
    assert.equal(others.areHeld, false)
  })

  it('runs together with others if they take too long, and the next hold starts only after a rest', async () => {
    const { breaks, others, clock } = start()
    breaks.began()
    const holding = breaks.hold(new Stop())
    clock.advance(HOLD_MS)
    const hold = await holding
    assert.deepEqual([hold?.isActive, others.areHeld], [false, false])
    clock.advance(HOLD_MS)
    // The job ends its hold again after its call, which must not make the rest longer.
    hold?.end()
    breaks.ended()
    const next = breaks.hold(new Stop())
    assert.equal(others.areHeld, false)
    clock.advance(3 * HOLD_MS)
    assert.equal((await next)?.isActive, true)
  })

  it('holds nobody at another target of the upstream before that rest has ended, and then only one does', async () => {
    const { breaks, sibling, other, others, clock } = start()
    const hold = await breaks.hold(new Stop())
    clock.advance(1000)
    hold?.end()
    const next = sibling.hold(new Stop())
    let hasStarted = false
    const last = other.hold(new Stop()).then((started) => {
      hasStarted = true
      return started
    })
    assert.equal(others.areHeld, false)
    clock.advance(4000)
    const held = await next
    assert.equal(held?.isActive, true)
    await clock.timerSet((ms) => ms > HOLD_MS)
    assert.equal(hasStarted, false)
    clock.advance(HOLD_MS)
    assert.deepEqual([held?.isActive, others.areHeld], [false, false])
    clock.advance(1)
    await clock.timerSet((ms) => ms > HOLD_MS)
    assert.equal(others.areHeld, false)
    clock.advance(4 * HOLD_MS)
    assert.equal((await last)?.isActive, true)
  })

  it('is not certain to be at fault once another call runs next to it', async () => {
    const { breaks, clock } = start()
    const hold = await breaks.hold(new Stop())
    breaks.answered('y')
    const breaksBefore = breaks.began()
    clock.advance(HOLD_MS)
    assert.equal(breaks.broke({ jobId: 'x', breaksBefore, isCareful: false, hold }).blame, 'counted')
  })

  it('stops waiting with its signal, and holds nobody then', async () => {
    const { breaks, others } = start()
    breaks.began()
    const stop = new Stop()
    const holding = breaks.hold(stop)
    stop.now('release')
    assert.deepEqual([await holding, others.areHeld], [null, false])
  })
})

describe('a schema', () => {
  const SCHEMA = '{"type":"object"}'
  const broken = (blame: BrokenCall['blame'], check = false): BrokenCall => ({
    event: { inProgress: 1, answered: { job: null, several: false, check } },
    blame,
  })

  it('is avoided for an hour after two breaks, and again after one more', () => {
    const schemas = new SchemaBreaks()
    schemas.broke(SCHEMA, broken('unexpected'), 0)
    assert.equal(schemas.isAvoided(SCHEMA, 0), false)
    schemas.broke(SCHEMA, broken('counted'), 0)
    assert.deepEqual(
      [0, AVOIDED_MS - 1, AVOIDED_MS].map((ms) => schemas.isAvoided(SCHEMA, ms)),
      [true, true, false],
    )
    schemas.broke(SCHEMA, broken('counted'), AVOIDED_MS)
    assert.equal(schemas.isAvoided(SCHEMA, AVOIDED_MS), true)
  })

  it('is not avoided after one break of several calls, after an answer, or because of an outage', () => {
    const schemas = new SchemaBreaks()
    const same = broken('counted')
    schemas.broke(SCHEMA, same, 0)
    schemas.broke(SCHEMA, same, 0)
    assert.equal(schemas.isAvoided(SCHEMA, 0), false)
    schemas.answered(SCHEMA)
    schemas.broke(SCHEMA, broken('counted'), 0)
    assert.equal(schemas.isAvoided(SCHEMA, 0), false)
    for (let n = 0; n < 3; n++) schemas.broke(SCHEMA, broken('none'), 0)
    assert.equal(schemas.isAvoided(SCHEMA, 0), false)
  })

  it('is avoided only for a minute if nothing but checks was answered', () => {
    const schemas = new SchemaBreaks()
    for (let n = 0; n < 2; n++) schemas.broke(SCHEMA, broken('none', true), 0)
    assert.deepEqual(
      [0, AVOIDED_BRIEFLY_MS].map((ms) => schemas.isAvoided(SCHEMA, ms)),
      [true, false],
    )
  })
})
