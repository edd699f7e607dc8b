import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  checkCallbackHeaders,
  MAX_HEADER_NAME_LENGTH,
  MAX_HEADERS,
  MAX_HEADERS_BYTES,
} from './callback-headers.ts'

test('headers that a caller may set', () => {
  assert.equal(checkCallbackHeaders({}), null)
  for (const [header, value] of [
    ['Authorization', 'Bearer abc'],
    ['Cookie', 'a=b; c=d'],
    ['X-Order-Id', '17'],
    ['X-Empty', ''],
    ['X-Text', 'two words,\tand a tab ~'],
    ["!#$%&'*+.^_`|~0aZ-", 'a token'],
    ['User-Agent', 'mine'],
    ['X-Forward', 'a'],
    ['X-Real-IP-Address', 'a'],
    ['Proxying', 'a'],
    ['Webhook', 'a'],
    ['constructor', 'harmless'],
    ['Content-Type', 'application/json'],
    ['content-type', 'Application/JSON; charset=UTF-8'],
    ['CONTENT-TYPE', 'application/json;charset="utf-8"; profile="x"'],
  ] as const) {
    assert.equal(checkCallbackHeaders({ [header]: value }), null, `${header}: ${value}`)
  }
  assert.equal(checkCallbackHeaders(JSON.parse('{"__proto__": "harmless"}')), null)
})

test('headers that Parley controls are rejected, in upper and lower case', () => {
  for (const header of [
    'Host',
    'Content-Length',
    'Transfer-Encoding',
    'Connection',
    'Keep-Alive',
    'Proxy-Authorization',
    'Proxy-Connection',
    'Proxy-Anything',
    'TE',
    'Trailer',
    'Upgrade',
    'Expect',
    'HTTP2-Settings',
    'Content-Encoding',
    'webhook-id',
    'webhook-timestamp',
    'webhook-signature',
    'Webhook-Anything',
    'Forwarded',
    'X-Forwarded-For',
    'X-Forwarded-Host',
    'Via',
    'Metadata',
    'Metadata-Flavor',
    'X-aws-ec2-metadata-token',
    'X-aws-ec2-metadata-token-ttl-seconds',
    'X-Google-Metadata-Request',
    'X-Real-IP',
    'True-Client-IP',
    'CF-Connecting-IP',
    'X-Client-IP',
    'X-Original-URL',
    'X-Rewrite-URL',
    'X-HTTP-Method-Override',
  ]) {
    for (const spelled of [header, header.toLowerCase(), header.toUpperCase()]) {
      const problem = checkCallbackHeaders({ 'X-Fine': '1', [spelled]: '1' })
      assert.equal(problem?.header, spelled)
      assert.match(problem?.rule ?? '', /cannot be set/)
    }
  }
})

test('a Content-Type other than JSON is rejected', () => {
  for (const value of [
    'text/plain',
    'application/jsonp',
    'application/problem+json',
    'text/plain; application/json',
    'application/json; charset=latin1',
    'application/json, text/plain',
    '',
  ]) {
    assert.match(
      checkCallbackHeaders({ 'Content-Type': value })?.rule ?? '',
      /must be application\/json/,
      value,
    )
  }
})

test('names that are not tokens are rejected', () => {
  for (const header of [
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
  ]) {
    assert.match(
      checkCallbackHeaders({ [header]: '1' })?.rule ?? '',
      /not a header name/,
      JSON.stringify(header),
    )
  }
})

test('values that HTTP cannot carry are rejected', () => {
  for (const value of [
    'a\r\nHost: b',
    'a\rb',
    'a\nb',
    'a\0b',
    '\x1b[0m',
    '\x7f',
    'é',
    '€',
    '😀',
    '\ud800',
    'a\u2028b',
  ]) {
    assert.match(checkCallbackHeaders({ 'X-A': value })?.rule ?? '', /visible ASCII/, JSON.stringify(value))
  }
})

test('duplicate headers, and headers beyond the limits of number and length, are rejected', () => {
  assert.deepEqual(checkCallbackHeaders({ 'X-A': '1', 'x-a': '2' }), {
    header: 'x-a',
    rule: 'is given twice, with different capitalization',
  })
  assert.equal(checkCallbackHeaders({ 'x-a': '1', 'X-A': '2' })?.header, 'X-A')
  const many = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`X-${index}`, '1']))
  assert.equal(checkCallbackHeaders(many(MAX_HEADERS)), null)
  assert.match(checkCallbackHeaders(many(MAX_HEADERS + 1))?.rule ?? '', /exceeds the limit of 50 headers/)
  assert.equal(checkCallbackHeaders({ ['x'.repeat(MAX_HEADER_NAME_LENGTH)]: '' }), null)
  assert.match(
    checkCallbackHeaders({ ['x'.repeat(MAX_HEADER_NAME_LENGTH + 1)]: '' })?.rule ?? '',
    /a name that is too long/,
  )
  assert.equal(checkCallbackHeaders({ abc: 'x'.repeat(MAX_HEADERS_BYTES - 3) }), null)
  assert.match(
    checkCallbackHeaders({ abc: 'x'.repeat(MAX_HEADERS_BYTES - 2) })?.rule ?? '',
    /exceeds the limit of 8192 bytes/,
  )
})
