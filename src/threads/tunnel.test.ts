import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import test, { type TestContext } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { ClientLines } from './client-line.ts'
import { Forwarder } from './forwarder.ts'
import { Tunnel } from './tunnel.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => void

/** A server that forwards all requests through tunnels to another one in the place of the main thread's; returns its port. */
async function forwarding(
  t: TestContext,
  handler: Handler,
): Promise<{ port: number; tunnels: () => number; openTunnels: () => number }> {
  const behind = createServer({ requireHostHeader: false }, handler)
  behind.on('checkContinue', handler)
  let opened = 0
  const open = new Set<Tunnel>()
  const forwarder = new Forwarder({
    lines: new ClientLines(),
    open: (address) => {
      opened += 1
      const { port1, port2 } = new MessageChannel()
      behind.emit('connection', new Tunnel(port2, address))
      const tunnel = new Tunnel(port1, null)
      open.add(tunnel)
      tunnel.once('close', () => open.delete(tunnel))
      return tunnel
    },
    closes: () => false,
    onUnsendable: (socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'),
  })
  const forward: Handler = (request, response) => forwarder.forward(request, response, null)
  const front = createServer({ requireHostHeader: false }, forward)
  front.on('checkContinue', forward)
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    front.closeAllConnections()
    front.close()
  })
  const address = front.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  return { port, tunnels: () => opened, openTunnels: () => open.size }
}

test('bodies of megabytes arrive whole in both directions, and a client’s address with them', async (t) => {
  const { port } = await forwarding(t, (request, response) => {
    response.setHeader('x-from', request.socket.remoteAddress ?? 'nowhere')
    request.pipe(response)
  })
  const body = Buffer.alloc(3_000_000, 'tunnel ')
  const response = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body })
  assert.equal(response.headers.get('x-from'), '127.0.0.1')
  assert.ok(Buffer.from(await response.arrayBuffer()).equals(body))
})

test('a response that its client does not read is not produced to its end', async (t) => {
  const piece = Buffer.alloc(65_536)
  let written = 0
  const { promise: stopped, resolve } = Promise.withResolvers<void>()
  const { port } = await forwarding(t, (_request, response) => {
    const write = () => {
      while (response.write(piece)) written += piece.length
      resolve()
    }
    write()
  })
  const socket = connect(port, '127.0.0.1').pause()
  t.after(() => socket.destroy())
  socket.write('GET / HTTP/1.1\r\nhost: parley\r\n\r\n')
  await stopped
  assert.ok(written < 16 * piece.length)
})

test('the requests of one connection share a tunnel, and a client that hangs up ends its request behind', async (t) => {
  const closed = Promise.withResolvers<void>()
  const { port, tunnels } = await forwarding(t, (request, response) => {
    if (request.url === '/stall') request.socket.once('close', () => closed.resolve())
    else response.end(request.url)
  })
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  for (const path of ['/one', '/two']) {
    socket.write(`GET ${path} HTTP/1.1\r\nhost: parley\r\n\r\n`)
    let text = ''
    while (!text.endsWith(path)) {
      text += await new Promise<string>((resolve) => socket.once('data', (piece) => resolve(String(piece))))
    }
  }
  assert.equal(tunnels(), 1)
  socket.write('GET /stall HTTP/1.1\r\nhost: parley\r\n\r\n')
  socket.destroy()
  await closed.promise
})

test('100 Continue is asked for by the server behind, and its answer before the body reaches the client', async (t) => {
  const { port } = await forwarding(t, (request, response) => {
    if (request.url === '/reject') {
      response.writeHead(413, { connection: 'close', 'content-length': 9 }).end('too large')
      return
    }
    response.writeContinue()
    request.pipe(response)
  })
  const exchange = async (path: string): Promise<string> => {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8')
    t.after(() => socket.destroy())
    socket.write(`POST ${path} HTTP/1.1\r\nhost: p\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n`)
    let text = ''
    for await (const piece of socket) {
      text += piece
      if (text.endsWith('100 Continue\r\n\r\n')) socket.write('body')
      if (/body|too large/.test(text)) break
    }
    return text
  }
  assert.match(await exchange('/accept'), /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n[\s\S]*body/)
  assert.match(await exchange('/reject'), /^HTTP\/1\.1 413 [\s\S]*too large$/)
})

test('a request is answered although nothing of its body has arrived', async (t) => {
  const { port } = await forwarding(t, (_request, response) => response.end('rejected'))
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  t.after(() => socket.destroy())
  socket.write('POST / HTTP/1.1\r\nhost: parley\r\ncontent-length: 6000000\r\n\r\n')
  let text = ''
  for await (const piece of socket) {
    text += piece
    if (text.endsWith('rejected')) break
  }
  assert.match(text, /^HTTP\/1\.1 200 OK/)
})

test('an HTTP/1.0 request without a host is served', async (t) => {
  const { port } = await forwarding(t, (request, response) => {
    response.write(request.url)
    response.end()
  })
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  socket.write('GET /old HTTP/1.0\r\n\r\n')
  let text = ''
  for await (const piece of socket) text += piece
  assert.match(text, /^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\n\/old$/, 'not in chunks')
})

test('a request that announces trailers is forwarded, though Node would not send that header', async (t) => {
  const { port } = await forwarding(t, (request, response) => request.pipe(response))
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  t.after(() => socket.destroy())
  socket.write('POST / HTTP/1.1\r\nhost: p\r\ntrailer: digest\r\ncontent-length: 4\r\n\r\nbody')
  let text = ''
  for await (const piece of socket) {
    text += piece
    if (/body|400/.test(text)) break
  }
  assert.match(text, /^HTTP\/1\.1 200 OK/)
})

test('no tunnel is left of a client that hangs up while requests wait for those before them', async (t) => {
  const arrived = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  const { port, tunnels, openTunnels } = await forwarding(t, ({ socket }) => {
    arrived.resolve()
    socket.once('close', closed.resolve)
  })
  const socket = connect(port, '127.0.0.1')
  socket.write('GET /stall HTTP/1.1\r\nhost: p\r\n\r\n'.repeat(3))
  await arrived.promise
  socket.destroy()
  await closed.promise
  assert.equal(tunnels(), 1)
  assert.equal(openTunnels(), 0)
})

test('a POST without a body is not sent in chunks', async (t) => {
  const { port } = await forwarding(t, ({ headers }, response) => {
    response.end(`chunks: ${headers['transfer-encoding']}, length: ${headers['content-length']}.`)
  })
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  t.after(() => socket.destroy())
  socket.write('POST / HTTP/1.1\r\nhost: p\r\n\r\n')
  let text = ''
  for await (const piece of socket) {
    text += piece
    if (text.endsWith('.')) break
  }
  assert.match(text, /chunks: undefined, length: 0\.$/)
})
