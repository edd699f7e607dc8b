import assert from 'node:assert/strict'
import { test } from 'node:test'
import { domainToASCII } from 'node:url'
import { isEncodedLabel } from './idn-label.ts'

/** What follows `xn--` in the encoding of a label, by the platform. */
function encoded(label: string): string {
  const ascii = domainToASCII(label)
  assert.match(ascii, /^xn--/, label)
  return ascii.slice('xn--'.length)
}

test('labels of other scripts are accepted as the platform encodes them', () => {
  for (const label of [
    'münchen',
    'παράδειγμα',
    '例え',
    'испытание',
    'l·l',
    '͵α',
    'א׳',
    'カ・ア',
    'क्‍ष',
    'ا١',
    'ا۱',
  ]) {
    assert.ok(isEncodedLabel(encoded(label)), label)
  }
})

test('characters without the neighbours that they need are not', () => {
  for (const label of ['a·l', 'l·a', '͵a', 'a・b', '〱a']) {
    assert.ok(!isEncodedLabel(encoded(label)), label)
  }
})

test('what encodes nothing is not', () => {
  for (const text of [
    '',
    '-',
    'a',
    'abc-',
    '99999999',
    'é',
    '!',
    'a-b-',
    'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz',
  ]) {
    assert.ok(!isEncodedLabel(text), text)
  }
})
