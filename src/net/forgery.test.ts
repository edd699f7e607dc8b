/**
 * Tests that no callback can forge a request. Each blocked range is tested at its edges, in many spellings and in several ways
 * in which an address can be returned, with a canary that must get no connection. The ranges are repeated here, so that the
 * tests detect an error in the guard's list.
 */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { type Receiver, startReceiver } from '../../test/receiver.ts'
import { IDLE_LIMITS } from '../../test/support/callback-poster.ts'
import { createPoster, type PostResult } from './post.ts'
import { checkCallbackUrl, isBlockedAddress, readNetworks } from './ssrf-guard.ts'

const IPV4 =
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 ' +
  '192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 ' +
  '198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4'

/**
 * Each line has the first and the last address of blocked ranges, including the ranges around 2000::/3. A star stands for all
 * missing groups, which are ffff.
 */
const IPV6 = readIpv6(`
  :: ::1
  ::2 0:0:0:0:0:0:ffff:ffff
  ::ffff:0:0 ::ffff:ffff:ffff
  64:ff9b:: 64:ff9b::ffff:ffff
  64:ff9b:1:: 64:ff9b:1:*
  100:: 100::ffff:ffff:ffff:ffff
  1fff:: 1fff:*
  2001:: 2001:1ff:*
  2001:db8:: 2001:db8:*
  2002:: 2002:*
  2620:4f:8000:: 2620:4f:8000:*
  3fff:: 3fff:fff:*
  4000:: 5fff:*
  5f00:: 5f00:*
  fc00:: fdff:*
  fd00:ec2::254 fd00:ec2::254
  fe80:: febf:*
  fec0:: feff:*
  ff00:: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
`)

/** These addresses are next to the blocked ranges. */
const ALLOWED_IPV6 = readIpv6(`
  2000:: 2000:* 2001:200:: 2001:db7:* 2001:db9:: 2001:*
  2003:: 2620:4f:7fff:* 2620:4f:8001:: 3ffe:* 3fff:1000:: 3fff:*
`)

const NAMES =
  'localhost a.localhost a.b.localhost local.local a.local a.internal a.b.internal metadata.google.internal'
    .split(' ')
    .flatMap((name) => [
      name,
      `${name}.`,
      name.toUpperCase(),
      name.replace('l', '%6C'),
      name.replace('l', 'ｌ'),
    ])

const PUBLIC = '93.184.216.34'
const PUBLIC_IPV6 = '2606:2800:220:1::1'

const rangesIpv4 = IPV4.split(' ').map((range) => {
  const [address = '', prefix = ''] = range.split('/')
  const first = numberOf(address)
  return { first, last: first + 2 ** (32 - Number(prefix)) - 1 }
})

const edgesIpv4 = unique(
  rangesIpv4
    .flatMap(({ first, last }) => [first, first + 1, Math.floor((first + last) / 2), last - 1, last])
    .filter(isBlocked),
)
const neighboursIpv4 = unique(
  rangesIpv4
    .flatMap(({ first, last }) => [first - 1, last + 1])
    .filter((address) => address >= 0 && address < 2 ** 32 && !isBlocked(address)),
)

function readIpv6(text: string): readonly string[] {
  const addresses = text.trim().split(/\s+/)
  const missing = (address: string) => Array<string>(9 - address.split(':').length).fill('ffff')
  return unique(addresses.map((address) => address.replace('*', missing(address).join(':'))))
}

function isBlocked(address: number): boolean {
  return rangesIpv4.some(({ first, last }) => address >= first && address <= last)
}

function unique<T>(list: readonly T[]): T[] {
  return [...new Set(list)]
}

function numberOf(address: string): number {
  return address.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0)
}

const octetsOf = (address: number) => [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256)
const dotted = (address: number) => octetsOf(address).join('.')

/** Returns spellings of an IPv4 address that the URL standard allows. */
function spellings(address: number): string[] {
  const octets = octetsOf(address)
  const [a = 0, b = 0, c = 0] = octets
  const fullWidth = (text: string) =>
    text.replace(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)))
  return [
    octets.join('.'),
    `${octets.join('.')}.`,
    String(address),
    `0x${address.toString(16)}`,
    `0X${address.toString(16).toUpperCase()}`,
    `0${address.toString(8)}`,
    octets.map((octet) => `0${octet.toString(8)}`).join('.'),
    octets.map((octet) => `0x${octet.toString(16)}`).join('.'),
    octets.map((octet) => `000${octet.toString(8)}`).join('.'),
    `${a}.${address % 2 ** 24}`,
    `${a}.${b}.${address % 2 ** 16}`,
    `0x${a.toString(16)}.0${b.toString(8)}.${c}.${address % 256}`,
    fullWidth(octets.join('.')),
    octets.join('。'),
    octets.join('.').replace(/\d/g, (digit) => `%3${digit}`),
  ]
}

/** Returns IPv6 addresses that contain this IPv4 address. */
function carriers(address: number): string[] {
  const high = Math.floor(address / 65_536)
  const low = address % 65_536
  const [h, l] = [high.toString(16), low.toString(16)]
  return [
    `::ffff:${dotted(address)}`,
    `::ffff:${h}:${l}`,
    `0:0:0:0:0:FFFF:${h}:${l}`,
    `::${dotted(address)}`,
    `::ffff:0:${h}:${l}`,
    `64:ff9b::${dotted(address)}`,
    `64:ff9b:1::${h}:${l}`,
    `2002:${h}:${l}::1`,
    `2001:0:4136:e378:8000:63bf:${(high ^ 0xffff).toString(16)}:${(low ^ 0xffff).toString(16)}`,
    `fe80::5efe:${h}:${l}`,
  ]
}

function spellingsIpv6(address: string): string[] {
  const compressed = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  const [head = '', tail] = compressed.split('::')
  const parts = (text: string) => (text === '' ? [] : text.split(':'))
  const missing = 8 - parts(head).length - parts(tail ?? '').length
  const full = [...parts(head), ...Array<string>(missing).fill('0'), ...parts(tail ?? '')]
  return unique([
    compressed,
    compressed.toUpperCase(),
    full.join(':'),
    full.map((part) => part.padStart(4, '0')).join(':'),
  ])
}

let canary: Receiver
/** The addresses of the opened connections, which all actually go to the canary. */
const opened: string[] = []
let answers: readonly string[] = []
let lookups = 0

const poster = createPoster({
  rules: { allow: [], httpsOnly: false },
  timeoutMs: 5000,
  idle: IDLE_LIMITS,
  resolve: async () => {
    lookups += 1
    return answers
  },
  open: (address) => {
    opened.push(address)
    return connect(canary.port, '127.0.0.1')
  },
})

const post = (host: string): Promise<PostResult> =>
  poster.post({ url: `http://${host}:${canary.port}/`, headers: {}, body: '{}' })

before(async () => {
  canary = await startReceiver()
})
after(async () => {
  await poster.close()
  await canary.close()
})

test('blocked at creation and at delivery, in every form; the canary sees no connection', async (t) => {
  let cases = 0

  async function assertHostBlocked(host: string): Promise<void> {
    cases += 1
    const checked = checkCallbackUrl(`http://${host}:${canary.port}/`, { allow: [], httpsOnly: false })
    assert.ok(!checked.ok, `${host} was accepted at creation`)
    assert.match(checked.rule, /allow_networks/, host)
    assert.equal((await post(host)).kind, 'refused', host)
  }

  async function assertAnswerBlocked(list: readonly string[]): Promise<void> {
    cases += 1
    answers = list
    const result = await post('hooks.example.com')
    assert.equal(result.kind, 'refused', list.join(' '))
  }

  for (const address of edgesIpv4) {
    for (const host of spellings(address)) await assertHostBlocked(host)
    for (const host of carriers(address)) await assertHostBlocked(`[${host}]`)
    await assertAnswerBlocked([dotted(address)])
    await assertAnswerBlocked([PUBLIC, dotted(address)])
    await assertAnswerBlocked([dotted(address), PUBLIC_IPV6])
    for (const carrier of carriers(address)) await assertAnswerBlocked([PUBLIC, carrier])
  }
  for (const address of IPV6) {
    for (const host of spellingsIpv6(address)) {
      await assertHostBlocked(`[${host}]`)
      await assertAnswerBlocked([host])
      await assertAnswerBlocked([PUBLIC, PUBLIC_IPV6, host])
    }
  }
  for (const name of NAMES) await assertHostBlocked(name)

  assert.deepEqual(opened, [])
  assert.equal(canary.connections(), 0)
  assert.ok(cases >= 2000, `${cases} cases`)
  t.diagnostic(`${cases} cases, ${canary.connections()} connections`)
})

test('the neighbours of every blocked range are allowed, and random addresses are blocked exactly as listed', () => {
  assert.ok(neighboursIpv4.length > 25)
  const neighbours = [...neighboursIpv4.map(dotted), ...ALLOWED_IPV6]
  for (const address of neighbours) assert.equal(isBlockedAddress(address, []), false, address)
  fc.assert(
    fc.property(fc.nat(2 ** 32 - 1), (address) => {
      assert.equal(isBlockedAddress(dotted(address), []), isBlocked(address), dotted(address))
    }),
    { numRuns: 3000 },
  )
})

test('a name is looked up once per connection, and the connection goes to the address that was checked', async () => {
  opened.length = 0
  lookups = 0
  answers = [PUBLIC]
  const before = canary.connections()
  // The connection goes to the canary. The address of the connected socket is not public, so nothing is sent.
  const result = await post('rebinding.example.com')
  assert.equal(result.kind, 'refused')
  assert.deepEqual(opened, [PUBLIC])
  assert.equal(lookups, 1)
  assert.equal(canary.connections(), before + 1)
  assert.equal(canary.requests.length, 0)
  await canary.allClosed()

  answers = ['127.0.0.1']
  assert.equal((await post('rebinding.example.com')).kind, 'refused')
  assert.deepEqual(opened, [PUBLIC])
  assert.equal(lookups, 2)
})

test('no redirect is followed, even to an allowed address', async (t) => {
  const read = readNetworks(['127.0.0.0/8'])
  assert.ok(read.ok)
  const seen = canary.connections()
  const receiver = await startReceiver()
  const follower = createPoster({
    rules: { allow: read.networks, httpsOnly: false },
    idle: IDLE_LIMITS,
    timeoutMs: 5000,
  })
  t.after(async () => {
    await follower.close()
    await receiver.close()
  })
  for (const status of [300, 301, 302, 303, 307, 308]) {
    receiver.script({ kind: 'answer', status, headers: { location: `${canary.url}/` } })
    const result = await follower.post({ url: receiver.url, headers: {}, body: '{}' })
    assert.ok(result.kind === 'answered')
    assert.equal(result.status, status)
  }
  assert.equal(receiver.requests.length, 6)
  assert.equal(canary.connections(), seen)
})
