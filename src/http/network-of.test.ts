import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkOf, trustedProxies } from './network-of.ts'

test('the peers in the networks are proxies, IPv4 in the form of IPv6 too, and what is not an address never is', () => {
  const trusts = trustedProxies('10.0.0.0/8, 192.0.2.7,2001:db8::/32')
  assert.ok(typeof trusts === 'function')
  for (const [address, trusted] of [
    ['10.1.2.3', true],
    ['::ffff:10.1.2.3', true],
    ['192.0.2.7', true],
    ['2001:db8:1::1', true],
    ['192.0.2.8', false],
    ['2001:db9::1', false],
    ['', false],
    ['unknown', false],
    ['10.1.2.3:80', false],
    [undefined, true],
  ] as const) {
    assert.equal(trusts(address), trusted, `${address}`)
  }
  assert.deepEqual([trustedProxies(true), trustedProxies(false)], [true, false])
})

test('the connections of a client count as one, also if a proxy adds their ports', () => {
  for (const [client, ...same] of [
    ['192.0.2.1', '192.0.2.1:4711', '::ffff:192.0.2.1', '[::ffff:192.0.2.1]:4711'],
    ['2001:db8:1:2::1', '[2001:db8:1:2::1]:4711', '[2001:db8:1:2::1]', '2001:db8:1:2:3::4711'],
    ['2001:db8::1', '2001:db8:0:0:ffff:ffff:ffff:ffff'],
    ['unknown', 'unknown'],
  ] as const) {
    for (const one of same) assert.equal(networkOf(one), networkOf(client))
  }
  for (const [one, other] of [
    ['192.0.2.1:4711', '192.0.2.2:4711'],
    ['2001:db8::1', '2001:db8:0:1::1'],
    ['::1', '1::'],
  ] as const) {
    assert.notEqual(networkOf(one), networkOf(other))
  }
})
