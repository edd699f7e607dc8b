/** Tests the comparison of counts with the expected ones: rises and falls are reported separately. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Counted, Counts } from './counting.ts'
import { changesOf, withoutNoise } from './expected.ts'

const OLD: Counts = { statements: 3, commits: 2, messages: 0, files: 10, functions: 40, kilobytes: 100 }

/** @param samples for each run of the operation, the counts that differ from `OLD` */
function counted(kilobytes: number, ...samples: readonly Partial<Counts>[]): Record<string, Counted> {
  const { kilobytes: _, ...exact } = OLD
  const all = samples.map((sample) => ({ ...exact, ...sample }))
  const least = (count: keyof typeof exact) => Math.min(...all.map((sample) => sample[count]))
  return {
    'a read': {
      statements: least('statements'),
      commits: least('commits'),
      messages: least('messages'),
      files: least('files'),
      functions: least('functions'),
      kilobytes,
      names: [],
      samples: all,
    },
  }
}

const before = { 'a read': OLD }

test('equal counts are no change, and neither are bytes within the tolerance', () => {
  assert.deepEqual(changesOf(before, counted(114, {})), { rises: [], falls: [] })
  assert.deepEqual(changesOf(before, counted(86, {})), { rises: [], falls: [] })
})

test('a count that rises in every repetition is a rise; in only some, it is not', () => {
  assert.deepEqual(changesOf(before, counted(100, { functions: 42 }, { functions: 41, statements: 4 })), {
    rises: ['a read: functions 40 -> 42'],
    falls: [],
  })
  assert.deepEqual(changesOf(before, counted(100, { functions: 42 }, {})), { rises: [], falls: [] })
})

test('a rise of one count is not hidden by the fall of another', () => {
  assert.deepEqual(changesOf(before, counted(100, { functions: 30, statements: 4 })), {
    rises: ['a read: statements 3 -> 4'],
    falls: ['a read: functions 40 -> 30'],
  })
})

test('bytes rise and fall by more than the tolerance, unless they are not compared', () => {
  assert.deepEqual(changesOf(before, counted(116, {})).rises, ['a read: kilobytes 100 -> 116'])
  assert.deepEqual(changesOf(before, counted(84, {})).falls, ['a read: kilobytes 100 -> 84'])
  assert.deepEqual(changesOf(before, counted(116, {}), false), { rises: [], falls: [] })
})

test('an operation that is not expected is a rise, and one that is not counted a fall', () => {
  assert.deepEqual(changesOf({}, counted(100, {})).rises, ['a read: not counted before'])
  assert.deepEqual(changesOf(before, {}).falls, ['a read: not counted any more'])
})

test('saving keeps the old bytes, unless they have changed by more than the tolerance', () => {
  const saved = (kilobytes: number) =>
    withoutNoise(before, { 'a read': { ...OLD, functions: 41, kilobytes } })['a read']
  assert.deepEqual(saved(114), { ...OLD, functions: 41 })
  assert.deepEqual(saved(86), { ...OLD, functions: 41 })
  assert.equal(saved(116)?.kilobytes, 116)
  assert.equal(saved(84)?.kilobytes, 84)
  const added = { 'a write': { ...OLD, kilobytes: 7 } }
  assert.deepEqual(withoutNoise(before, added), added)
})
