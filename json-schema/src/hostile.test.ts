import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { slowness } from '../../test/process/watched-server.ts'
import { HOSTILE_FAMILIES } from '../../test/support/hostile-schemas.ts'
import { LONG } from '../../test/support/long-form.ts'
import { anyValue, wellFormed } from '../../test/support/random-schemas.ts'
import { checkAnswer } from './check-answer.ts'
import { CHECK_STEPS, FIRST_CHECK_STEPS, MAX_ERRORS, StepBudget } from './limits.ts'
import { makeExample } from './make-example.ts'
import { readSchema } from './read-schema.ts'
import { meetsStrictRules } from './strict-rules.ts'

const RUNS = LONG ? 10_000 : 2000

/**
 * The package promises 50 ms, which its budget of steps enforces. This test only finds work that the budget does not count. The
 * limit is long, because the first calls run code that is not compiled yet. CPU time is measured, because the machine also runs
 * other tests.
 */
const LONGEST_CPU_MS = 500

/** Limits the CPU time of the part of a check that runs on the event loop. */
const EVENT_LOOP_MS = 20

const slowest = { call: '', cpuMs: 0 }

function cpuMsOf(callback: () => unknown): number {
  const before = process.threadCpuUsage()
  callback()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}

function timed<T>(call: string, callback: () => T): T {
  const before = process.threadCpuUsage()
  const result = callback()
  const { user, system } = process.threadCpuUsage(before)
  const cpuMs = (user + system) / 1000
  if (cpuMs > slowest.cpuMs) Object.assign(slowest, { call, cpuMs })
  assert.ok(cpuMs < LONGEST_CPU_MS, `${call} took ${cpuMs} ms`)
  return result
}

function useAll(family: string, schema: unknown, answer: unknown): 'refused' | 'right' | 'wrong' {
  const read = timed(`reading ${family}`, () => readSchema(schema))
  if (!read.ok) {
    assert.ok(read.path.startsWith('schema') && read.rule.length < 1_000)
    return 'refused'
  }
  const budget = new StepBudget(CHECK_STEPS)
  const checked = timed(`checking ${family}`, () => checkAnswer(read.schema, answer, budget))
  assert.ok(budget.spent <= CHECK_STEPS)
  if (!checked.ok && checked.kind === 'wrong') {
    assert.ok(checked.errors.length > 0 && checked.errors.length <= MAX_ERRORS)
    assert.ok(checked.errors.every((error) => error.length < 1_000))
  }
  timed(`strict rules of ${family}`, () => meetsStrictRules(read.schema))
  const example = timed(`making an example of ${family}`, () => makeExample(read.schema))
  if (example !== null) assert.ok(checkAnswer(read.schema, example.value).ok)
  return checked.ok ? 'right' : 'wrong'
}

test('every hostile family is refused, found wrong, or checked, within its steps', (t) => {
  for (const family of HOSTILE_FAMILIES) {
    for (const size of [1, 7, 30, 100]) {
      const { family: name, schema, answer } = family(size)
      useAll(`${name} × ${size}`, schema, answer)
    }
  }
  t.diagnostic(`the longest call, ${slowest.call}, took ${slowest.cpuMs.toFixed(0)} ms of CPU`)
})

/** Most of the generated JSON is rejected, and none of it may cause a crash. */
const keywordSoup: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', maxDepth: 6 },
    fc.constantFrom<unknown>(
      null,
      true,
      false,
      -1,
      0,
      2,
      1e308,
      'string',
      'object',
      '#',
      '#/$defs/a',
      '#/anyOf/0',
      '(a+)+$',
    ),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('schema'),
  ),
  schema: fc
    .array(
      fc.tuple(
        fc.constantFrom(
          ...[
            'type',
            'properties',
            'required',
            'additionalProperties',
            'items',
            'enum',
            'const',
            'anyOf',
            '$ref',
          ],
          ...[
            '$defs',
            'minimum',
            'multipleOf',
            'minLength',
            'maxItems',
            'pattern',
            'format',
            'default',
            'a',
            '__proto__',
          ],
        ),
        tie('value'),
      ),
      { maxLength: 4 },
    )
    .map((entries) => Object.fromEntries(entries)),
})).schema

test(`${RUNS} generated schemas × answers: no crash, and no call beyond its steps`, () => {
  const seen = { refused: 0, right: 0, wrong: 0 }
  const pairs = fc.oneof(
    { weight: 6, arbitrary: fc.tuple(fc.constant('well-formed'), wellFormed, anyValue) },
    { weight: 4, arbitrary: fc.tuple(fc.constant('soup'), keywordSoup, anyValue) },
  )
  fc.assert(
    fc.property(pairs, ([family, schema, answer]) => {
      seen[useAll(family, schema, answer)]++
    }),
    { numRuns: RUNS, seed: 5 },
  )
  assert.ok(seen.refused > 500 && seen.right > 200 && seen.wrong > 1_000, JSON.stringify(seen))
})

test('what the event loop checks before a thread takes over holds it for 20 ms at most', (t) => {
  let longest = { family: '', cpuMs: 0 }
  for (const make of HOSTILE_FAMILIES) {
    const { family, schema, answer } = make(100)
    const read = readSchema(schema)
    if (!read.ok) continue
    const check = () => checkAnswer(read.schema, answer, new StepBudget(FIRST_CHECK_STEPS))
    // The minimum of several runs counts, because the first run is not compiled yet, and a garbage collection may happen in any
    // run.
    const cpuMs = Math.min(...[1, 2, 3, 4, 5].map(() => cpuMsOf(check)))
    if (cpuMs > longest.cpuMs) longest = { family, cpuMs }
  }
  t.diagnostic(`the longest, ${longest.family}, took ${longest.cpuMs.toFixed(1)} ms of CPU`)
  assert.ok(longest.cpuMs <= EVENT_LOOP_MS * slowness(), `${longest.family} took ${longest.cpuMs} ms`)
})

test('an exponential schema spends its steps and no more', () => {
  const family = HOSTILE_FAMILIES.map((make) => make(40)).find(
    ({ family }) => family === 'branching $ref one step in',
  )
  const read = readSchema(family?.schema)
  assert.ok(read.ok)
  const budget = new StepBudget(CHECK_STEPS)
  const checked = checkAnswer(read.schema, family?.answer, budget)
  assert.ok(!checked.ok && checked.kind === 'not checked')
  assert.match(checked.reason, /takes more than 300000 steps/)
  assert.equal(budget.spent, CHECK_STEPS)
})
