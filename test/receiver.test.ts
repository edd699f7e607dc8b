/**
 * Tests that the receiver for tests knows which of its responses nobody can have read. Tests that kill a Parley rely on that.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import test, { type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { type ReceivedRequest, type ReceiverReply, startReceiver } from './receiver.ts'

const REQUEST = 'POST /hook HTTP/1.1\r\nhost: receiver\r\ncontent-length: 2\r\n\r\n{}'

async function start(t: TestContext, reply: () => ReceiverReply = () => ({ kind: 'answer' })) {
  const unread: ReceivedRequest[] = []
  const found = Promise.withResolvers<void>()
  const onUnread = (request: ReceivedRequest) => {
    unread.push(request)
    found.resolve()
  }
  const receiver = await startReceiver({ reply, onUnread }, t)
  return { receiver, unread, found: found.promise }
}

async function ended({ receiver }: Awaited<ReturnType<typeof start>>): Promise<void> {
  await receiver.allClosed()
  await turn()
}

async function connected(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

test('an answer that was read is not unread, whether its connection goes on or ends', async (t) => {
  const started = await start(t)
  const { receiver, unread } = started
  const socket = await connected(receiver.port)
  for (let count = 1; count <= 2; count++) {
    socket.write(REQUEST)
    await once(socket, 'data')
  }
  socket.destroy()
  await ended(started)
  assert.equal(receiver.requests.length, 2)
  assert.deepEqual(unread, [])
})

test('an answer that lies unread when its sender is gone is unread', async (t) => {
  const { receiver, unread, found } = await start(t)
  const socket = connect(receiver.port, '127.0.0.1')
  // The socket must be paused before it connects, because it would read ahead otherwise.
  socket.pause()
  socket.on('error', () => {})
  socket.write(REQUEST)
  await receiver.received(1)
  await turn()
  socket.destroy()
  await found
  assert.deepEqual(unread, receiver.requests)
})

test('an answer to a sender that was gone before it is unread', async (t) => {
  let socket: Socket | undefined
  const { receiver, unread, found } = await start(t, () => {
    // The operating system ends the connection before the response is written, but the receiver learns of the end only later.
    socket?.destroy()
    return { kind: 'answer' }
  })
  socket = await connected(receiver.port)
  socket.write(REQUEST)
  await found
  assert.deepEqual(unread, receiver.requests)
})

test('an answer that the receiver did not send in full is unread', async (t) => {
  const { receiver, unread, found } = await start(t, () => ({ kind: 'stall', afterHeaders: true }))
  const socket = await connected(receiver.port)
  socket.write(REQUEST)
  await receiver.received(1)
  await receiver.close()
  await found
  assert.deepEqual(unread, receiver.requests)
  socket.destroy()
})
