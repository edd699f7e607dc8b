import assert from 'node:assert/strict'
import { BlockList, isIPv4 } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  checkCallbackUrl,
  isBlockedAddress,
  localhostAddresses,
  MAX_URL_LENGTH,
  type Network,
  readNetworks,
} from './ssrf-guard.ts'

const RULES = { allow: [], httpsOnly: false }

function networks(...list: string[]): readonly Network[] {
  const read = readNetworks(list)
  assert.ok(read.ok)
  return read.networks
}

const ruleOf = (url: string, allow: readonly Network[] = []): string => {
  const checked = checkCallbackUrl(url, { allow, httpsOnly: false })
  return checked.ok ? 'accepted' : checked.rule
}

/** A second implementation, for comparison: Node's own block list, which shares neither code nor data with the guard. */
function listedIpv4(): BlockList {
  const list = new BlockList()
  const ranges =
    '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 ' +
    '192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 ' +
    '198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4'
  for (const range of ranges.split(' ')) {
    const [address = '', prefix] = range.split('/')
    list.addSubnet(address, Number(prefix), 'ipv4')
  }
  return list
}

test('random IPv4 addresses are blocked exactly as listed', () => {
  const listed = listedIpv4()
  const octet = fc.oneof(
    fc.integer({ min: 0, max: 255 }),
    fc.constantFrom(0, 10, 127, 169, 172, 192, 198, 203, 224),
  )
  fc.assert(
    fc.property(fc.tuple(octet, octet, octet, octet), (octets) => {
      const address = octets.join('.')
      assert.equal(isBlockedAddress(address, []), listed.check(address, 'ipv4'), address)
    }),
    { numRuns: 3000 },
  )
})

test('public addresses and names are accepted and normalized', () => {
  const cases: readonly (readonly [string, string])[] = [
    ['http://93.184.216.34/hook', 'http://93.184.216.34/hook'],
    [
      'https://[2606:2800:220:1:248:1893:25C8:1946]:8443/',
      'https://[2606:2800:220:1:248:1893:25c8:1946]:8443/',
    ],
    ['https://hooks.example.com/a?b=c', 'https://hooks.example.com/a?b=c'],
    ['https://HOOKS.example.com.:443/', 'https://hooks.example.com/'],
    ['http://1572395042/', 'http://93.184.216.34/'],
    ['http://0x5db8d822/', 'http://93.184.216.34/'],
    ['http://bücher.example/', 'http://xn--bcher-kva.example/'],
    ['http://localhost.example.com/', 'http://localhost.example.com/'],
    ['http://notlocalhost/', 'http://notlocalhost/'],
    ['http://local/', 'http://local/'],
    ['http://metadata.google.internal.example/', 'http://metadata.google.internal.example/'],
  ]
  for (const [text, url] of cases) assert.deepEqual(checkCallbackUrl(text, RULES), { ok: true, url }, text)
})

test('anything but an http or https URL is rejected', () => {
  for (const text of [
    '',
    'hooks.example.com',
    '/hook',
    '//hooks.example.com/',
    'ftp://hooks.example.com/',
    'file:///etc/passwd',
    'gopher://hooks.example.com/',
    'javascript:alert(1)',
    'data:text/plain,x',
    'unix:/run/docker.sock',
    'http://',
    'http://exa mple.com/',
    'http://hooks.example.com:99999/',
    'http://1.2.3.4.5/',
    'http://[fe80::1%25eth0]/',
  ]) {
    assert.match(ruleOf(text), /must be an absolute http or https URL/, text)
  }
})

test('user names, passwords and invalid host names are rejected', () => {
  assert.match(ruleOf('http://user@hooks.example.com/'), /user name or password/)
  assert.match(ruleOf('http://:secret@hooks.example.com/'), /user name or password/)
  assert.match(ruleOf('http://hooks..example.com/'), /not a valid DNS name/)
  assert.match(ruleOf('http://hooks.example.com../'), /not a valid DNS name/)
  assert.match(ruleOf('http://127.0.0.1../'), /leads to 127\.0\.0\.1,/)
  assert.match(ruleOf(`http://${'a'.repeat(64)}.example/`), /not a valid DNS name/)
  assert.match(ruleOf(`http://${'a.'.repeat(130)}example/`), /not a valid DNS name/)
})

test('a URL that is too long when encoded is rejected at creation', () => {
  const start = 'https://hooks.example.com/'
  const most = Math.floor((MAX_URL_LENGTH - start.length) / '%E6%97%A5'.length)
  const longest = checkCallbackUrl(start + '日'.repeat(most), { allow: [], httpsOnly: false })
  assert.ok(longest.ok)
  assert.equal(ruleOf(longest.url), 'accepted')
  assert.match(ruleOf(start + '日'.repeat(most + 1)), /at most 8192 characters long when encoded/)
})

test('https_only rejects http and names the setting', () => {
  const rules = { allow: [], httpsOnly: true }
  assert.ok(checkCallbackUrl('https://hooks.example.com/', rules).ok)
  const rejected = checkCallbackUrl('http://hooks.example.com/', rules)
  assert.ok(!rejected.ok)
  assert.match(rejected.rule, /callbacks\.https_only/)
  const other = checkCallbackUrl('ftp://hooks.example.com/', rules)
  assert.ok(!other.ok)
  assert.equal(other.rule, 'must be an absolute https URL')
})

test('every rejection of a host names allow_networks', () => {
  for (const host of [
    '127.0.0.1',
    '[::1]',
    '169.254.169.254',
    'localhost',
    'LOCALHOST.',
    'app.localhost',
    'printer.local',
    'db.internal',
    'metadata.google.internal',
    'Metadata.Google.Internal.',
  ]) {
    assert.match(ruleOf(`http://${host}/`), /`callbacks\.allow_networks`/, host)
  }
})

test('allow_networks allows exactly its ranges', () => {
  const allow = networks('10.1.0.0/16', 'fd00:1::/32')
  assert.equal(ruleOf('http://10.1.0.0/', allow), 'accepted')
  assert.equal(ruleOf('http://10.1.255.255/', allow), 'accepted')
  assert.equal(ruleOf('http://[fd00:1:2::3]/', allow), 'accepted')
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
  assert.deepEqual(localhostAddresses('localhost', networks('127.0.0.0/8')), ['127.0.0.1'])
  assert.deepEqual(localhostAddresses('localhost', networks('::1/128')), ['::1'])
  assert.deepEqual(localhostAddresses('localhost', networks('127.0.0.1', '::1')), ['127.0.0.1', '::1'])
  assert.deepEqual(localhostAddresses('localhost', []), [])
  assert.equal(localhostAddresses('hooks.example.com', []), null)
  assert.match(ruleOf('http://printer.local/', networks('127.0.0.0/8')), /private network/)
})

test('addresses that are always blocked stay blocked when everything is allowed, in every form', () => {
  const allow = networks('0.0.0.0/0', '::/0')
  for (const address of ['169.254.169.254', '168.63.129.16', '100.100.100.200', '192.0.0.192']) {
    const hex = address.split('.').map((octet) => Number(octet).toString(16).padStart(2, '0'))
    const [high, low] = [hex.slice(0, 2).join(''), hex.slice(2).join('')]
    const inverted = address.split('.').map((octet) => (255 - Number(octet)).toString(16).padStart(2, '0'))
    for (const host of [
      address,
      `::ffff:${address}`,
      `::${address}`,
      `::ffff:0:${address}`,
      `64:ff9b::${address}`,
      `64:ff9b:1::${address}`,
      `fe80::5efe:${address}`,
      `2002:${high}:${low}::1`,
      `2001:0:1::${inverted.slice(0, 2).join('')}:${inverted.slice(2).join('')}`,
    ]) {
      assert.equal(isBlockedAddress(host, allow), true, host)
      assert.match(
        ruleOf(isIPv4(host) ? `http://${host}/` : `http://[${host}]/`, allow),
        /never be sent to/,
        host,
      )
    }
  }
  assert.equal(isBlockedAddress('fd00:ec2::254', allow), true)
  assert.equal(isBlockedAddress('fd00:ec2::253', allow), false)
  assert.equal(isBlockedAddress('169.254.169.253', allow), false)
  assert.equal(isBlockedAddress('::ffff:10.0.0.1', allow), false)
  assert.match(ruleOf('http://metadata.google.internal/', allow), /private network/)
})

test('any text but a plain address is blocked', () => {
  for (const text of [
    '',
    '127.1',
    '0x7f.0.0.1',
    '010.0.0.1',
    '[2606::1]',
    '93.184.216.34:80',
    'example.com',
  ]) {
    assert.equal(isBlockedAddress(text, networks('0.0.0.0/0', '::/0')), true, text)
  }
  assert.equal(isBlockedAddress('fe80::1%eth0', []), true)
})

test('allow_networks accepts ranges and single addresses; the first invalid entry is named', () => {
  assert.ok(readNetworks([]).ok)
  assert.ok(
    readNetworks(['10.0.0.0/8', '127.0.0.1/8', '192.168.1.7', 'fd00::/8', '::1', '::/0', '0.0.0.0/0']).ok,
  )
  for (const entry of [
    '',
    'private',
    'localhost',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.0/-1',
    '10.0.0.0/8.0',
    '10.0.0.0/ 8',
    '10.0/8',
    '010.0.0.0/8',
    'fd00::/129',
    '[fd00::]/8',
    ' 10.0.0.0/8',
    '10.0.0.0/255.0.0.0',
  ]) {
    assert.deepEqual(readNetworks(['10.0.0.0/8', entry, 'worse']), { ok: false, entry }, entry)
  }
})
