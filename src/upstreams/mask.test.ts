import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MASKED_CHARACTERS, MAX_UPSTREAM_MESSAGE_LENGTH, maskFor } from './mask.ts'

const ODD = 'C:\\new "key" ä/\u{1F600}+100%25'
const mask = maskFor([ODD])

const quoted = (text: string) => JSON.stringify(text).slice(1, -1)
const ascii = (text: string) =>
  text.replace(/[^\0-\x7f]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
const escapedSigns = (text: string) =>
  text.replace(/["/+]/g, (char) => `\\u00${char.charCodeAt(0).toString(16).toUpperCase()}`)
const form = (text: string) => new URLSearchParams({ x: text }).toString().slice(2)

const SPELLINGS: readonly (readonly [name: string, spelled: string])[] = [
  ['as it is', ODD],
  ['JSON', quoted(ODD)],
  ['JSON in ASCII', ascii(quoted(ODD))],
  ['JSON with escaped signs', escapedSigns(ODD.replaceAll('\\', '\\\\'))],
  ['JSON with escaped slashes', quoted(ODD).replaceAll('/', '\\/')],
  ['JSON in JSON', quoted(quoted(ODD))],
  ['JSON in JSON in JSON, in ASCII', quoted(quoted(ascii(quoted(ODD))))],
  ['a part of a URL', encodeURIComponent(ODD)],
  ['JSON in a part of a URL', encodeURIComponent(ascii(quoted(ODD)))],
]
for (const [name, spelled] of SPELLINGS) {
  test(`a secret spelled as ${name} is masked`, () => {
    assert.equal(mask(`before {${spelled}} after`), 'before {***} after')
  })
}

test('secrets in URLs are masked in other encodings, too', () => {
  const inUrl = maskFor(['a/b c=d&e é'])
  for (const spelled of [
    form('a/b c=d&e é'),
    'a%2fb%20c%3dd%26e%20%c3%a9',
    'a%252Fb+c%253Dd%2526e%2520%25C3%25A9',
  ]) {
    assert.equal(inUrl(`at x=${spelled}!`), 'at x=***!', spelled)
  }
})

test('a secret of several lines is masked, also when its lines are joined', () => {
  const lines = maskFor(['first line\n  second\tline'])
  const spellings = ['first line\n  second\tline', 'first line second line', 'first line\\n  second\\tline']
  for (const spelled of spellings) assert.equal(lines(`(${spelled})`), '(***)')
})

test('secrets that overlap or contain each other are masked completely', () => {
  const several = maskFor(['abcdefghij', 'ghijklmnop', 'abcdefgh', 'nana-nana'])
  assert.equal(several('x abcdefghijklmnop y'), 'x *** y')
  assert.equal(several('x abcdefgh y abcdefghij z'), 'x *** y *** z')
  assert.equal(several('x nana-nana-nana y'), 'x *** y')
})

test('a short secret is masked as it is written, and nothing else is taken for it', () => {
  assert.equal(maskFor(['a+'])('a+ and a are not the same'), '*** and a are not the same')
  assert.equal(maskFor(['%41%42%43%44'])('the ABCD is %41%42%43%44'), 'the ABCD is ***')
  for (const blank of ['', ' ', '\n\n\n\n\n\n\n\n', '\\\\\\\\\\\\\\\\']) {
    assert.equal(maskFor([blank])('nothing secret'), 'nothing secret')
  }
})

test('the start of a secret is masked where the server has cut its message', () => {
  const long = maskFor(['0123456789-abcdefghij'])
  assert.equal(long('got {"x":"0123456789-abc'), 'got {"x":"***')
  assert.equal(long('got {"x":"0123456789-abc…"'), 'got {"x":"***…"')
  assert.equal(long('got 0123456789-abc, no'), 'got 0123456789-abc, no')
})

test('what is left of a secret at the end of what is masked does not show', () => {
  const secret = 'é'.repeat(20)
  const long = maskFor([secret])
  const spelled = ascii(secret)
  for (let cut = 1; cut < spelled.length; cut++) {
    const start = `a${' '.repeat(MASKED_CHARACTERS - 1 - cut)}`
    assert.match(long(start + spelled), /^a \*\*\*$/, `${cut} characters of it`)
  }
})

test('a message of nothing but what repeats is masked in time', () => {
  const slow = maskFor([ODD, 'aaaaaaaaaaaaaaaa', '%%%%%%%%%%%%', '................x'])
  const startedMs = performance.now()
  for (const part of ['\\', '%25', '.', 'a', '%', ' ', '\\u', '+']) {
    assert.ok(slow(part.repeat(MASKED_CHARACTERS)).length <= MAX_UPSTREAM_MESSAGE_LENGTH)
  }
  assert.ok(performance.now() - startedMs < 5000)
})
