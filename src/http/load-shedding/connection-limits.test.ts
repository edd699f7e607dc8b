import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { createServer, type Server } from 'node:http'
import { test } from 'node:test'
import { type ConnectionLimit, ConnectionLimits, type ConnectionLimitsOptions } from './connection-limits.ts'

class FakeSocket extends EventEmitter {
  readonly remoteAddress: string | undefined
  written = ''

  constructor(remoteAddress: string | undefined) {
    super()
    this.remoteAddress = remoteAddress
  }

  end(text: string): void {
    this.written += text
  }

  destroySoon(): void {
    this.emit('close')
  }
}

function start(over: Partial<ConnectionLimitsOptions> = {}) {
  const rejected: [ConnectionLimit, string | null][] = []
  const limits = new ConnectionLimits({
    total: 100,
    perAddress: 2,
    trustProxy: false,
    onRejected: (limit, address) => void rejected.push([limit, address]),
    ...over,
  })
  const server: Server = createServer()
  server.removeAllListeners('connection')
  const accepted: FakeSocket[] = []
  server.on('connection', (socket: FakeSocket) => accepted.push(socket))
  limits.guard(server)
  const open = (address?: string): FakeSocket => {
    const socket = new FakeSocket(address)
    server.emit('connection', socket)
    return socket
  }
  const isAccepted = (address?: string) => accepted.includes(open(address))
  return { limits, server, rejected, accepted, open, isAccepted }
}

test('connections of one address are limited, and a closed one makes room', () => {
  const { limits, rejected, open, isAccepted } = start()
  const first = open('203.0.113.7')
  assert.deepEqual([isAccepted('203.0.113.7'), isAccepted('203.0.113.7')], [true, false])
  assert.deepEqual(rejected, [['connections_per_address', '203.0.113.7']])
  assert.equal(isAccepted('203.0.113.8'), true)
  assert.equal(limits.open, 3)
  first.emit('close')
  assert.equal(isAccepted('203.0.113.7'), true)
  assert.equal(limits.open, 3)
})

test('the response to a rejected connection names the limit', () => {
  const { open } = start({ perAddress: 0 })
  const [head = '', body = ''] = open('203.0.113.7').written.split('\r\n\r\n')
  assert.match(head, /^HTTP\/1\.1 503 Service Unavailable\r\n/)
  assert.match(head, /^retry-after: 5\r$/m)
  assert.match(head, new RegExp(`^content-length: ${body.length}\\r$`, 'm'))
  const { success, message, details } = JSON.parse(body)
  assert.deepEqual([success, message], [false, 'Too many connections.'])
  assert.match(details, /limits\.connections_per_address/)
})

test('an IPv6 network of 64 bits counts as one address, and a mapped IPv4 address as IPv4', () => {
  const { isAccepted } = start()
  const same = ['2001:db8:1:2::1', '2001:db8:1:2:ffff::9', '2001:db8:1:2::3', '2001:db8:1:3::1']
  assert.deepEqual(same.map(isAccepted), [true, true, false, true])
  const mapped = ['::ffff:203.0.113.9', '203.0.113.9', '::ffff:203.0.113.9']
  assert.deepEqual(mapped.map(isAccepted), [true, true, false])
})

test('loopback, Unix sockets and trusted proxies are exempt from the limit by address', () => {
  const { isAccepted } = start({ perAddress: 1, trustProxy: '10.1.0.0/16, 192.0.2.1, 2001:db8::/32' })
  const local = ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1', undefined]
  const proxies = ['10.1.2.3', '::ffff:10.1.2.3', '192.0.2.1', '2001:db8:9::1']
  for (const address of [...local, ...proxies]) {
    assert.deepEqual([isAccepted(address), isAccepted(address)], [true, true], `${address}`)
  }
  for (const address of ['10.2.0.1', '192.0.2.2', '2001:db9::1']) {
    assert.deepEqual([isAccepted(address), isAccepted(address)], [true, false], address)
  }
})

test('where every proxy is trusted, no address is limited', () => {
  const { isAccepted } = start({ perAddress: 1, trustProxy: true })
  assert.deepEqual([isAccepted('203.0.113.7'), isAccepted('203.0.113.7')], [true, true])
})

test('all connections together are limited, whatever their addresses', () => {
  const { limits, rejected, isAccepted } = start({ total: 2 })
  assert.deepEqual(['127.0.0.1', undefined, '127.0.0.1'].map(isAccepted), [true, true, false])
  assert.deepEqual([rejected, limits.open], [[['connections', '127.0.0.1']], 2])
})
