import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LONG } from '../../test/support/long-form.ts'
import { cutMembers, cutMembersOfEach, type WantedMembers } from './cut-members.ts'

const RUNS = LONG ? 10_000 : 1000

const WANTED: WantedMembers = new Map<string, number | WantedMembers>([
  ['callback', new Map([['callback_payload', 0]])],
  ['response_format', new Map([['schema', 1]])],
])

/** Returns what `JSON.parse` finds at the same places. */
function parsed(element: unknown): [payload: unknown, schema: unknown] {
  const { callback, response_format } = (element ?? {}) as Record<string, unknown>
  const inside = (value: unknown, name: string) =>
    typeof value === 'object' && value !== null && Object.hasOwn(value, name)
      ? (value as Record<string, unknown>)[name]
      : undefined
  return [inside(callback, 'callback_payload'), inside(response_format, 'schema')]
}

const parsedOrNone = (text: string | null | undefined) =>
  typeof text === 'string' ? JSON.parse(text) : undefined

const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 3 })
const wantedNames = ['callback', 'callback_payload', 'response_format', 'schema']
const interesting = fc.constantFrom(...wantedNames, '__proto__', 'a"b', 'a\\', '}],[{')
const names = fc.oneof({ weight: 4, arbitrary: interesting }, fc.string({ maxLength: 40 }))

/** Writes each character of a JSON string at random in its plain or its escaped form. */
const written = (string: fc.Arbitrary<string>) =>
  fc.tuple(string, fc.infiniteStream(fc.boolean())).map(([characters, coins]) => {
    const units = characters.split('').map((unit) => {
      const escaped = `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
      return coins.next().value === true ? escaped : JSON.stringify(unit).slice(1, -1)
    })
    return `"${units.join('')}"`
  })

/** Generates JSON text with white space anywhere, repeated names, escaped names, and numbers in every spelling. */
const jsonText: fc.Arbitrary<string> = fc.letrec<{ value: string; object: string; array: string }>((tie) => {
  const list = (item: fc.Arbitrary<string>, open: string, close: string) =>
    fc
      .tuple(fc.array(fc.tuple(space, item, space), { maxLength: 4 }), space)
      .map(
        ([items, empty]) =>
          `${open}${items.length === 0 ? empty : items.map((parts) => parts.join('')).join(',')}${close}`,
      )
  const member = fc
    .tuple(written(names), space, space, tie('value'))
    .map(([name, before, after, value]) => `${name}${before}:${after}${value}`)
  return {
    value: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      fc.constantFrom('null', 'true', 'false', '-0', '1.10', '1e400', '12345678901234567890', '-2E-7'),
      written(fc.string({ maxLength: 40 })),
      tie('array'),
      tie('object'),
      tie('object'),
    ),
    object: list(member, '{', '}'),
    array: list(tie('value'), '[', ']'),
  }
}).value

const memberOf = (name: string, value: fc.Arbitrary<string>) =>
  fc
    .tuple(written(fc.oneof({ weight: 4, arbitrary: fc.constant(name) }, names)), space, value, space)
    .map(([text, before, inside, after]) => `${text}${before}:${before}${inside}${after}`)
const objectOf = (...members: fc.Arbitrary<string>[]) =>
  fc.array(fc.oneof(...members), { maxLength: 4 }).map((texts) => `{${texts.join(',')}}`)
const element = objectOf(
  memberOf('callback', objectOf(memberOf('callback_payload', jsonText), memberOf('callback_url', jsonText))),
  memberOf('response_format', objectOf(memberOf('schema', jsonText), memberOf('format', jsonText))),
  memberOf('callback', jsonText),
)
const documents = fc.oneof(
  jsonText,
  element,
  fc.array(fc.oneof(element, element, jsonText), { maxLength: 4 }).map((texts) => `[${texts.join(', ')}]`),
)

test(`${RUNS} documents: what is cut is what JSON.parse finds there`, () => {
  let found = 0
  fc.assert(
    fc.property(space, documents, space, (before, json, after) => {
      const text = before + json + after
      const value: unknown = JSON.parse(text)
      const isArray = Array.isArray(value)
      const elements: unknown[] = isArray ? value : [value]
      const cuts = isArray ? cutMembersOfEach(text, WANTED) : [cutMembers(text, WANTED)]
      assert.equal(cuts.length, elements.length)
      for (const [index, cut] of cuts.entries()) {
        const expected = parsed(elements[index])
        assert.deepEqual([parsedOrNone(cut[0]), parsedOrNone(cut[1])], expected)
        if (expected.some((one) => one !== undefined)) found++
      }
    }),
    { numRuns: RUNS, seed: 7 },
  )
  assert.ok(found > RUNS / 4, `only ${found} documents have something to cut`)
})

test('the text is cut as it was written', () => {
  const payload = '{ "big": 12345678901234567890,\n "e": 1e400, "zero": -0, "a": 1, "a": "\\u00fc" }'
  const text = `[ {"model": "x", "callback" : {"callback_payload" :${payload} , "callback_url":"y"}} , {} ]`
  assert.deepEqual(cutMembersOfEach(text, WANTED), [
    [payload, null],
    [null, null],
  ])
})

test('names may be escaped, and the last of two members counts with all that is in it', () => {
  for (const [text, payload] of [
    ['{"c\\u0061llback":{"callback\\u005Fpayload":1}}', '1'],
    ['{"callback":{"callback_payload":1},"callback":{}}', null],
    ['{"callback":{"callback_payload":1,"callback_payload":2}}', '2'],
    ['{"callback":{"callback_payload":1},"callback":[{"callback_payload":2}]}', null],
  ] as const) {
    assert.deepEqual(cutMembers(text, WANTED), [payload, null], text)
  }
})

test('the time grows with the length of the text, not faster', () => {
  const hostile: [string, (size: number) => string][] = [
    ['strings of backslashes', (size) => `[{"callback":{"callback_payload":"${'\\\\'.repeat(size / 2)}"}}]`],
    ['escaped quotes', (size) => `[{"callback":{"callback_payload":"${'\\"'.repeat(size / 2)}"}}]`],
    ['empty strings', (size) => `[{"callback":{"callback_payload":[${'"",'.repeat(size / 3)}""]}}]`],
    ['the same name again', (size) => `[{${'"callback":{},'.repeat(size / 14)}"a":1}]`],
    ['brackets', (size) => `[{"a":${'['.repeat(size / 2)}${']'.repeat(size / 2)}}]`],
    ['white space', (size) => `[${' '.repeat(size)}{}]`],
    ['elements', (size) => `[${'{},'.repeat(size / 3)}{}]`],
  ]
  const cpuMs = (text: string) => {
    const before = process.threadCpuUsage()
    cutMembersOfEach(text, WANTED)
    return process.threadCpuUsage(before).user / 1000
  }
  for (const [name, make] of hostile) {
    const small = make(50_000)
    const large = make(1_600_000)
    cpuMs(small)
    // The large text is 32 times as long. The test allows 256 times the time, because quadratic work would take 1,024 times.
    const once = Math.max(1, Math.min(cpuMs(small), cpuMs(small), cpuMs(small)))
    const longer = Math.min(cpuMs(large), cpuMs(large), cpuMs(large))
    assert.ok(longer < 256 * once, `${name}: ${longer} ms for 32 times what takes ${once} ms`)
  }
})
