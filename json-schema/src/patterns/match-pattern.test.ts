import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LONG } from '../../../test/support/long-form.ts'
import { MAX_PATTERN_DEPTH, MAX_PATTERN_LENGTH, StepBudget, StepBudgetExceeded } from '../limits.ts'
import { PROPERTY_NAMES } from './char-set.ts'
import { compilePattern } from './compile-pattern.ts'
import { matchesPattern } from './match-pattern.ts'
import { readPattern } from './read-pattern.ts'

const RUNS = LONG ? 10_000 : 2000

function matches(pattern: string, text: string, budget = new StepBudget(1e6)): boolean {
  const read = readPattern(pattern)
  assert.ok(read.ok, `${pattern} is refused`)
  return matchesPattern(compilePattern(read.tree), text, budget)
}

const TEXTS = [
  '',
  'a',
  'b',
  'ab',
  'aab',
  'abab',
  'a b',
  'a\nb',
  'é',
  '😀',
  'A1',
  '-',
  ']',
  '{',
  'a{',
  '\u2028',
  '_',
  ' ',
  '1',
]

/** Each pattern must match the texts above, and its own texts, exactly as it does in JavaScript with the flag `u`. */
const AS_NATIVE: [pattern: string, ...texts: string[]][] = [
  [''],
  ['a'],
  ['^a$'],
  ['a|b|'],
  ['^(?:a|b)*$'],
  ['^(a+)+$', 'aaaaaaaaaaaaaaab'],
  ['^a{2}$', 'aa', 'aaa'],
  ['^a{2,}$', 'aa', 'aaa'],
  ['^a{1,3}?$', 'aa', 'aaaa'],
  ['^(?:ab){2}$'],
  ['^(?:a?){3}$', 'aaa', 'aaaa'],
  ['^(?:a*)*b$', 'aaab'],
  ['^(?:|a)+$', 'aa'],
  ['^.$'],
  ['^[^]$'.replace('[^]', '[\\s\\S]')],
  ['\\bb\\b'],
  ['\\Bb'],
  ['^\\B$'],
  ['^\\w+$', 'a_1', 'a-'],
  ['^\\W$'],
  ['^\\d\\D$', '1a'],
  ['^\\s$', '\u00a0', '\ufeff', '\u3000', '\v'],
  ['^\\S+$'],
  ['^[a-c1]+$', 'abc1', 'abd'],
  ['^[^a-c]+$', 'xyz', 'xaz'],
  ['^[\\w.-]+$', 'a.b-c', 'a b'],
  ['^[\\]\\\\^-]+$', ']\\^-'],
  ['^[\\b]$', '\b'],
  ['^\\p{L}+$', 'éa', 'é1'],
  ['^\\P{L}+$', '12'],
  ['^[\\p{L}\\d]+$', 'é1', 'é-'],
  ['^[^\\p{L}\\d]+$', '--', 'é'],
  ['^[\\P{L}x]$', 'x', 'y'],
  ['^\\p{Script=Greek}$', 'α'],
  ['^\\u0041\\x31$'],
  ['^\\u{1F600}$'],
  ['^\\uD83D\\uDE00$'],
  ['^[\\u4e00-\\u9fa5]+$', '中文'],
  ['^[😀-😂]$', '😁'],
  ['^\\cJ$', '\n'],
  ['^\\0$', '\0'],
  ['^\\t\\n\\v\\f\\r$', '\t\n\v\f\r'],
  ['^\\/\\.\\*\\+\\?\\(\\)\\[\\]\\{\\}\\|\\^\\$\\\\$', '/.*+?()[]{}|^$\\'],
  ['(?<year>\\d{4})-(?<month>\\d\\d)', '2026-01'],
  ['a$|^b'],
  ['$a'],
  ['a^'],
]

test('a pattern matches as in JavaScript', () => {
  for (const [pattern, ...texts] of AS_NATIVE) {
    const native = new RegExp(pattern, 'u')
    for (const text of [...TEXTS, ...texts]) {
      assert.equal(matches(pattern, text), native.test(text), `${pattern} on ${JSON.stringify(text)}`)
    }
  }
})

test('every Unicode property that is allowed is one that JavaScript knows', () => {
  for (const name of PROPERTY_NAMES) {
    assert.equal(matches(`\\p{${name}}`, 'a'), new RegExp(`\\p{${name}}`, 'u').test('a'), name)
  }
})

test('what unicode mode refuses but people write stands for itself', () => {
  const cases: [string, string, boolean][] = [
    ['^\\-\\_\\@\\"\\ $', '-_@" ', true],
    ['^{a}$', '{a}', true],
    ['^a{$', 'a{', true],
    ['^a{x}$', 'a{x}', true],
    ['^]$', ']', true],
    ['^[\\w-z]$', '-', true],
    ['^[a-]$', '-', true],
  ]
  for (const [pattern, text, expected] of cases) assert.equal(matches(pattern, text), expected, pattern)
})

const atom = fc.constantFrom(
  'a',
  'b',
  '.',
  '[ab]',
  '[^a]',
  '\\w',
  '\\b',
  '^',
  '$',
  '\\d',
  'é',
  '😀',
  '[é-ü]',
  '\\s',
)
const { pattern: anyPattern } = fc.letrec<{ pattern: string; part: string }>((tie) => ({
  pattern: fc.array(tie('part'), { maxLength: 3 }).map((parts) => parts.join('')),
  part: fc.oneof(
    { depthSize: 'small', maxDepth: 4 },
    atom,
    fc
      .tuple(tie('pattern'), fc.constantFrom('', '*', '+', '?', '{2}', '{0,2}', '{1,}', '*?'))
      .map(([inside, repeat]) => `(?:${inside})${repeat}`),
    fc.tuple(tie('pattern'), tie('pattern')).map(([one, other]) => `(${one}|${other})`),
  ),
}))

test(`${RUNS} generated patterns match as in JavaScript`, () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', ' ', '1', 'é', '😀', '\n'), maxLength: 8 })
  fc.assert(
    fc.property(anyPattern, text, (pattern, subject) => {
      assert.equal(matches(pattern, subject), new RegExp(pattern, 'u').test(subject))
    }),
    { numRuns: RUNS, seed: 7 },
  )
})

test('what no linear-time matcher can take, or dialects disagree about, is refused by name', () => {
  const cases: [string, RegExp][] = [
    ['(?=a)b', /has a lookahead/],
    ['(?!a)b', /has a lookahead/],
    ['(?<=a)b', /has a lookahead or lookbehind/],
    ['(?<!a)b', /has a lookahead or lookbehind/],
    ['(a)\\1', /refers back/],
    ['(?<n>a)\\k<n>', /refers back/],
    ['(?i)a', /group that is not supported/],
    ['(?P<n>a)', /\(\?<name>…\)/],
    ['\\Aa\\Z', /write "\^" or "\$"/],
    ['\\Qa', /escape "\\Q"/],
    ['\\u12', /escape "\\u"/],
    ['\\u{110000}', /not a character/],
    ['\\p{Klingon}', /unknown "\\p/],
    ['a**', /repeats a repetition/],
    ['a++', /after a repetition/],
    ['*a', /nothing before it/],
    ['^*', /match no characters/],
    ['a{,3}', /write the lower bound/],
    ['a{3,2}', /out of order/],
    ['[]', /empty class/],
    ['[^]', /empty class/],
    ['[[:alpha:]]', /list its characters/],
    ['[z-a]', /out of order/],
    ['[a-\\d]', /range ends in a class/],
    ['[\\B]', /inside a class/],
    ['[a', /without a "\]"/],
    ['(a', /without a "\)"/],
    ['a)', /without a "\("/],
    ['a\\', /lone backslash/],
    ['a{1000}{1000}', /repeats a repetition/],
    ['(a{1000}){1000}', /too large/],
    ['(){1000000000}', /too large/],
    [`a{${'9'.repeat(30)}}`, /too large/],
    ['('.repeat(MAX_PATTERN_DEPTH + 1), /deep/],
    ['a'.repeat(MAX_PATTERN_LENGTH + 1), /at most/],
  ]
  for (const [pattern, rule] of cases) {
    const read = readPattern(pattern)
    assert.ok(!read.ok, `${pattern} is accepted`)
    assert.match(read.rule, rule)
  }
})

test('a regex bomb spends steps in proportion to its text, and stops when they are spent', () => {
  const spent = (length: number) => {
    const budget = new StepBudget(1e9)
    assert.equal(matches('(a+)+$', `${'a'.repeat(length)}b`, budget), false)
    return budget.spent
  }
  assert.ok(spent(20_000) < 2.1 * spent(10_000))
  assert.throws(
    () => matches('(a|b)*a(a|b){400}$', 'ab'.repeat(50_000), new StepBudget(10_000)),
    StepBudgetExceeded,
  )
})

test('instructions that take no character are paid for too', () => {
  const budget = new StepBudget(1e9)
  assert.equal(matches(`(?:${'$|'.repeat(1_000)}$)x`, 'a'.repeat(100), budget), false)
  assert.ok(budget.spent > 20_000)
})

test('a Unicode property is paid for, and an anchored pattern gives up at once', () => {
  const spent = (pattern: string) => {
    const budget = new StepBudget(1e9)
    assert.equal(matches(pattern, 'b'.repeat(1_000), budget), false)
    return budget.spent
  }
  assert.ok(spent('[\\p{Lu}\\p{Nd}]') > 3 * spent('a'))
  assert.ok(spent('^a') < 10)
})

test('a program may be used repeatedly, even after its generations wrap around', () => {
  const read = readPattern('^ab+$')
  assert.ok(read.ok)
  const program = compilePattern(read.tree)
  // When the generation numbers start again, marks of earlier generations must not count.
  for (const generation of [0, 0xffffffff]) {
    program.generation = generation
    assert.ok(matchesPattern(program, 'abb', new StepBudget(100)))
  }
  for (const text of ['abb', 'a', 'ab'])
    assert.equal(matchesPattern(program, text, new StepBudget(100)), text !== 'a')
})
