import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { StalledWrites } from './load-shedding/connection-limits.ts'

const LIMIT_MS = 15_000
/** A stalled connection is closed at most this late. */
const CHECK_MS = LIMIT_MS / 4

/** The test sets the buffered bytes of this connection. `test/process/readers.test.ts` uses real connections. */
class FakeSocket extends EventEmitter {
  readonly remoteAddress: string | undefined
  /** The number includes the bytes that are still buffered. */
  bytesWritten = 0
  writableLength = 0
  end: 'open' | 'reset' | 'destroyed' = 'open'

  constructor(remoteAddress: string | undefined) {
    super()
    this.remoteAddress = remoteAddress
  }

  resetAndDestroy(): void {
    this.end = 'reset'
    this.emit('close')
  }

  destroy(): void {
    this.end = 'destroyed'
    this.emit('close')
  }
}

function start() {
  const clock = new FakeClock()
  const closed: (string | null)[] = []
  const stalled = new StalledWrites({ clock, limitMs: LIMIT_MS, onClosed: (address) => closed.push(address) })
  const server = createServer()
  server.removeAllListeners('connection')
  stalled.watch(server)
  const open = (address: string | undefined = '203.0.113.7') => {
    const socket = new FakeSocket(address)
    server.emit('connection', socket)
    return socket
  }
  return { clock, closed, open }
}

test('a connection that takes nothing of its response for the time limit is closed', () => {
  const { clock, closed, open } = start()
  const socket = open()
  Object.assign(socket, { bytesWritten: 1000, writableLength: 600 })
  clock.advance(LIMIT_MS - 1)
  assert.equal(socket.end, 'open')
  clock.advance(2 * CHECK_MS)
  assert.equal(socket.end, 'reset')
  assert.deepEqual(closed, ['203.0.113.7'])
})

test('a connection that takes a little of its response again and again stays open', () => {
  const { clock, open } = start()
  const socket = open()
  socket.bytesWritten = 1000
  for (let left = 999; left > 0; left -= 111) {
    socket.writableLength = left
    clock.advance(LIMIT_MS - CHECK_MS)
  }
  assert.equal(socket.end, 'open')
  socket.writableLength = 0
  clock.advance(10 * LIMIT_MS)
  assert.equal(socket.end, 'open', 'one that waits for its job or for the next request has nothing to take')
})

test('more of a response that is given to a stalled connection is no progress', () => {
  const { clock, open } = start()
  const socket = open()
  for (let given = 1; given <= 8; given++) {
    Object.assign(socket, { bytesWritten: 1000 * given, writableLength: 1000 * given - 400 })
    clock.advance(CHECK_MS)
  }
  assert.equal(socket.end, 'reset')
})

test('a Unix socket, which cannot be reset, is destroyed', () => {
  const { clock, closed, open } = start()
  const socket = open(undefined)
  Object.defineProperty(socket, 'remoteAddress', { value: undefined })
  Object.assign(socket, { bytesWritten: 1000, writableLength: 600 })
  clock.advance(LIMIT_MS + 2 * CHECK_MS)
  assert.deepEqual([socket.end, closed], ['destroyed', [null]])
})

test('nothing is checked while there are no connections', () => {
  const { clock, open } = start()
  assert.deepEqual(clock.pending(), [])
  const socket = open()
  assert.deepEqual(clock.pending(), [CHECK_MS])
  socket.emit('close')
  clock.advance(CHECK_MS)
  assert.deepEqual(clock.pending(), [])
})
