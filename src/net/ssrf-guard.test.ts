import assert from 'node:assert/strict'
import { isIPv4 } from 'node:net'
import { test } from 'node:test'
import {
  checkCallbackUrl,
  isBlockedAddress,
  localhostAddresses,
  MAX_URL_LENGTH,
  type Network,
  readNetworks,
} from './ssrf-guard.ts'

function networks(...list: string[]): readonly Network[] {
  const read = readNetworks(list)
  assert.ok(read.ok)
  return read.networks
}

const check = (url: string, allow: readonly Network[] = [], httpsOnly = false) =>
  checkCallbackUrl(url, { allow, httpsOnly })

const ruleOf = (...given: Parameters<typeof check>): string => {
  const checked = check(...given)
  return checked.ok ? 'accepted' : checked.rule
}

test('public addresses and names are accepted and normalized', () => {
  const normalized = {
    'https://[2606:2800:220:1:248:1893:25C8:1946]:8443/':
      'https://[2606:2800:220:1:248:1893:25c8:1946]:8443/',
    'https://HOOKS.example.com.:443/': 'https://hooks.example.com/',
    'http://1572395042/': 'http://93.184.216.34/',
    'http://0x5db8d822/': 'http://93.184.216.34/',
    'http://bücher.example/': 'http://xn--bcher-kva.example/',
  }
  for (const [text, url] of Object.entries(normalized)) assert.deepEqual(check(text), { ok: true, url }, text)
  for (const url of [
    ...['http://93.184.216.34/hook', 'https://hooks.example.com/a?b=c', 'http://localhost.example.com/'],
    ...['http://notlocalhost/', 'http://local/', 'http://metadata.google.internal.example/'],
  ]) {
    assert.deepEqual(check(url), { ok: true, url }, url)
  }
})

test('anything but an http or https URL is rejected', () => {
  for (const text of [
    ...['', 'hooks.example.com', '/hook', '//hooks.example.com/', 'http://', 'http://exa mple.com/'],
    ...[
      'ftp://hooks.example.com/',
      'file:///etc/passwd',
      'gopher://hooks.example.com/',
      'javascript:alert(1)',
    ],
    ...['data:text/plain,x', 'unix:/run/docker.sock', 'http://hooks.example.com:99999/'],
    ...['http://1.2.3.4.5/', 'http://[fe80::1%25eth0]/'],
  ]) {
    assert.match(ruleOf(text), /must be an absolute http or https URL/, text)
  }
})

test('user names, passwords and invalid host names are rejected', () => {
  for (const [host, rule] of [
    ['user@hooks.example.com', /user name or password/],
    [':secret@hooks.example.com', /user name or password/],
    ['hooks..example.com', /not a valid DNS name/],
    ['hooks.example.com..', /not a valid DNS name/],
    ['127.0.0.1..', /leads to 127\.0\.0\.1,/],
    [`${'a'.repeat(64)}.example`, /not a valid DNS name/],
    [`${'a.'.repeat(130)}example`, /not a valid DNS name/],
  ] as const) {
    assert.match(ruleOf(`http://${host}/`), rule, host)
  }
})

test('a URL that is too long when encoded is rejected at creation', () => {
  const start = 'https://hooks.example.com/'
  const most = Math.floor((MAX_URL_LENGTH - start.length) / '%E6%97%A5'.length)
  const longest = check(start + '日'.repeat(most))
  assert.ok(longest.ok)
  assert.equal(ruleOf(longest.url), 'accepted')
  assert.match(ruleOf(start + '日'.repeat(most + 1)), /at most 8192 characters long when encoded/)
})

test('https_only rejects http and names the setting', () => {
  assert.equal(ruleOf('https://hooks.example.com/', [], true), 'accepted')
  assert.match(ruleOf('http://hooks.example.com/', [], true), /callbacks\.https_only/)
  assert.equal(ruleOf('ftp://hooks.example.com/', [], true), 'must be an absolute https URL')
})

test('allow_networks allows exactly its ranges', () => {
  const allow = networks('10.1.0.0/16', 'fd00:1::/32')
  for (const host of ['10.1.0.0', '10.1.255.255', '[fd00:1:2::3]']) {
    assert.equal(ruleOf(`http://${host}/`, allow), 'accepted')
  }
  for (const host of [
    '10.0.255.255',
    '10.2.0.0',
    '[fd00:2::]',
    '127.0.0.1',
    'localhost',
    '[::ffff:10.1.0.0]',
  ]) {
    assert.match(ruleOf(`http://${host}/`, allow), /allow_networks/, host)
  }
  assert.equal(isBlockedAddress('93.184.216.34', allow), false)
})

test('allowing loopback allows localhost, with the allowed addresses', () => {
  assert.match(ruleOf('http://localhost/'), /this server's own host/)
  assert.equal(ruleOf('http://localhost:3000/', networks('127.0.0.0/8')), 'accepted')
  assert.equal(ruleOf('http://app.localhost/', networks('::1')), 'accepted')
  for (const [allow, addresses] of [
    [['127.0.0.0/8'], ['127.0.0.1']],
    [['::1/128'], ['::1']],
    [
      ['127.0.0.1', '::1'],
      ['127.0.0.1', '::1'],
    ],
    [[], []],
  ] as const) {
    assert.deepEqual(localhostAddresses('localhost', networks(...allow)), addresses)
  }
  assert.equal(localhostAddresses('hooks.example.com', []), null)
  assert.match(ruleOf('http://printer.local/', networks('127.0.0.0/8')), /private network/)
})

test('addresses that are always blocked stay blocked when everything is allowed, in every form', () => {
  const allow = networks('0.0.0.0/0', '::/0')
  for (const address of ['169.254.169.254', '168.63.129.16', '100.100.100.200', '192.0.0.192']) {
    const octets = address.split('.').map(Number)
    const hex = octets.map((octet) => octet.toString(16).padStart(2, '0')).join('')
    const inverted = octets.map((octet) => (255 - octet).toString(16).padStart(2, '0')).join('')
    const groups = (digits: string) => `${digits.slice(0, 4)}:${digits.slice(4)}`
    const prefixes = ['', '::ffff:', '::', '::ffff:0:', '64:ff9b::', '64:ff9b:1::', 'fe80::5efe:']
    const others = [`2002:${groups(hex)}::1`, `2001:0:1::${groups(inverted)}`]
    for (const host of [...prefixes.map((prefix) => prefix + address), ...others]) {
      assert.equal(isBlockedAddress(host, allow), true, host)
      const url = isIPv4(host) ? `http://${host}/` : `http://[${host}]/`
      assert.match(ruleOf(url, allow), /never be sent to/, host)
    }
  }
  assert.equal(isBlockedAddress('fd00:ec2::254', allow), true)
  for (const address of ['fd00:ec2::253', '169.254.169.253', '::ffff:10.0.0.1']) {
    assert.equal(isBlockedAddress(address, allow), false, address)
  }
  assert.match(ruleOf('http://metadata.google.internal/', allow), /private network/)
})

test('any text but a plain address is blocked', () => {
  const everything = networks('0.0.0.0/0', '::/0')
  for (const text of [
    '',
    '127.1',
    '0x7f.0.0.1',
    '010.0.0.1',
    '[2606::1]',
    '93.184.216.34:80',
    'example.com',
  ]) {
    assert.equal(isBlockedAddress(text, everything), true, text)
  }
  assert.equal(isBlockedAddress('fe80::1%eth0', []), true)
})

test('allow_networks accepts ranges and single addresses; the first invalid entry is named', () => {
  networks()
  networks('10.0.0.0/8', '127.0.0.1/8', '192.168.1.7', 'fd00::/8', '::1', '::/0', '0.0.0.0/0')
  for (const entry of [
    ...[
      '',
      'private',
      'localhost',
      '10.0.0.0/33',
      '10.0.0.0/',
      '10.0.0.0/8/8',
      '10.0.0.0/-1',
      '10.0.0.0/8.0',
    ],
    ...[
      '10.0.0.0/ 8',
      ' 10.0.0.0/8',
      '10.0/8',
      '010.0.0.0/8',
      'fd00::/129',
      '[fd00::]/8',
      '10.0.0.0/255.0.0.0',
    ],
  ]) {
    assert.deepEqual(readNetworks(['10.0.0.0/8', entry, 'worse']), { ok: false, entry }, entry)
  }
})
