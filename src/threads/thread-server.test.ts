import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { connect, createServer } from 'node:net'
import test from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { StalledWrites } from '../http/stalled-writes.ts'
import { ClientLines } from './client-line.ts'
import { ThreadServer } from './thread-server.ts'

test('a client that sends thousands of requests at once is read only as fast as they are answered', async (t) => {
  const requests = 3_000
  const unanswered: ServerResponse[] = []
  let most = 0
  let answered = 0
  const all = Promise.withResolvers<void>()
  const answerNext = () => {
    unanswered.shift()?.end()
    answered += 1
    if (answered === requests) all.resolve()
    if (unanswered.length > 0) setImmediate(answerNext)
  }
  const server = new ThreadServer({
    port: { send: () => {} },
    lines: new ClientLines(),
    headerTimeoutMs: 60_000,
    requestTimeoutMs: 60_000,
    stalledWrites: () => new StalledWrites({ clock: new FakeClock(), limitMs: 60_000, onClosed: () => {} }),
    handle: (_request, response) => {
      most = Math.max(most, unanswered.push(response))
      if (unanswered.length === 1) setImmediate(answerNext)
    },
  })
  const listening = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) =>
    server.accept(1, socket),
  )
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
  const address = listening.address()
  const client = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1').resume()
  t.after(() => {
    client.destroy()
    server.cutOff()
    listening.close()
  })
  const request = `GET / HTTP/1.1\r\nhost: p\r\nx-long: ${'x'.repeat(200)}\r\n\r\n`
  client.write(request.repeat(requests))
  await all.promise
  const inOnePiece = 65_536 / request.length
  assert.ok(most < 2 * inOnePiece, `${most} waited at the same time`)
})
