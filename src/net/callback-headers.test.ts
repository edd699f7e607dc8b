import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  checkCallbackHeaders,
  MAX_HEADER_NAME_LENGTH,
  MAX_HEADERS,
  MAX_HEADERS_BYTES,
} from './callback-headers.ts'

const ruleOf = (headers: Readonly<Record<string, string>>) => checkCallbackHeaders(headers)?.rule ?? ''

test('headers that a caller may set', () => {
  for (const headers of [
    {},
    { Authorization: 'Bearer abc', Cookie: 'a=b; c=d', 'X-Order-Id': '17', 'User-Agent': 'mine' },
    { 'X-Empty': '', 'X-Text': 'two words,\tand a tab ~', "!#$%&'*+.^_`|~0aZ-": 'a token' },
    // These names resemble those that Parley controls.
    { 'X-Forward': 'a', 'X-Real-IP-Address': 'a', Proxying: 'a', Webhook: 'a' },
    { constructor: 'harmless' },
    JSON.parse('{"__proto__": "harmless"}'),
    { 'Content-Type': 'application/json' },
    { 'content-type': 'Application/JSON; charset=UTF-8' },
    { 'CONTENT-TYPE': 'application/json;charset="utf-8"; profile="x"' },
  ]) {
    assert.equal(checkCallbackHeaders(headers), null, JSON.stringify(headers))
  }
})

const CONTROLLED = `
  Host Content-Length Transfer-Encoding Connection Keep-Alive TE Trailer Upgrade Expect HTTP2-Settings Content-Encoding
  Proxy-Authorization Proxy-Connection Proxy-Anything webhook-id webhook-timestamp webhook-signature Webhook-Anything
  Forwarded X-Forwarded-For X-Forwarded-Host Via X-Real-IP True-Client-IP CF-Connecting-IP X-Client-IP
  Metadata Metadata-Flavor X-aws-ec2-metadata-token X-aws-ec2-metadata-token-ttl-seconds X-Google-Metadata-Request
  X-Original-URL X-Rewrite-URL X-HTTP-Method-Override`

test('headers that Parley controls are rejected, in upper and lower case', () => {
  for (const header of CONTROLLED.trim().split(/\s+/)) {
    for (const spelled of [header, header.toLowerCase(), header.toUpperCase()]) {
      const problem = checkCallbackHeaders({ 'X-Fine': '1', [spelled]: '1' })
      assert.equal(problem?.header, spelled)
      assert.match(problem?.rule ?? '', /cannot be set/)
    }
  }
})

test('a Content-Type other than JSON is rejected', () => {
  for (const value of [
    ...['text/plain', 'application/jsonp', 'application/problem+json', 'text/plain; application/json', ''],
    ...['application/json; charset=latin1', 'application/json, text/plain'],
  ]) {
    assert.match(ruleOf({ 'Content-Type': value }), /must be application\/json/, value)
  }
})

test('names that are not tokens are rejected', () => {
  const names = [
    '',
    ' ',
    'X Y',
    'X:',
    ':authority',
    'X-Ü',
    'X\r\nHost',
    'X\0',
    'a"b',
    'a(b)',
    'Host ',
    '\tHost',
  ]
  for (const header of names) assert.match(ruleOf({ [header]: '1' }), /not a header name/, header)
})

test('values that HTTP cannot carry are rejected', () => {
  const lines = ['a\r\nHost: b', 'a\rb', 'a\nb', 'a\0b', '\x1b[0m', '\x7f']
  for (const value of [...lines, 'é', '€', '😀', '\ud800', 'a\u2028b']) {
    assert.match(ruleOf({ 'X-A': value }), /visible ASCII/, JSON.stringify(value))
  }
})

test('duplicate headers, and headers beyond the limits of number and length, are rejected', () => {
  const rule = 'is given twice, with different capitalization'
  assert.deepEqual(checkCallbackHeaders({ 'X-A': '1', 'x-a': '2' }), { header: 'x-a', rule })
  assert.deepEqual(checkCallbackHeaders({ 'x-a': '1', 'X-A': '2' }), { header: 'X-A', rule })
  const many = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`X-${at}`, '1']))
  assert.equal(ruleOf(many(MAX_HEADERS)), '')
  assert.match(ruleOf(many(MAX_HEADERS + 1)), /exceeds the limit of 50 headers/)
  assert.equal(ruleOf({ ['x'.repeat(MAX_HEADER_NAME_LENGTH)]: '' }), '')
  assert.match(ruleOf({ ['x'.repeat(MAX_HEADER_NAME_LENGTH + 1)]: '' }), /a name that is too long/)
  assert.equal(ruleOf({ abc: 'x'.repeat(MAX_HEADERS_BYTES - 3) }), '')
  assert.match(ruleOf({ abc: 'x'.repeat(MAX_HEADERS_BYTES - 2) }), /exceeds the limit of 8192 bytes/)
})
