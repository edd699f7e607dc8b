import assert from 'node:assert/strict'
import { createServer, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import test, { type TestContext } from 'node:test'
import { BodyReader } from './body-reader.ts'

const HEAD = 'POST / HTTP/1.1\r\nhost: p\r\ncontent-length: 4\r\n\r\n'

/** Sends the start of a request; resolves with it and the client. */
async function started(t: TestContext, text: string): Promise<{ request: IncomingMessage; client: Socket }> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const client = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1')
  t.after(() => {
    client.destroy()
    server.close()
  })
  client.write(text)
  const request = await new Promise<IncomingMessage>((resolve) => server.once('request', resolve))
  return { request, client }
}

const bodyOf = (reader: BodyReader, request: IncomingMessage): Promise<string | null> =>
  new Promise((resolve) => {
    assert.ok(reader.read(request, (body) => resolve(body === null ? null : String(body))))
  })

test('the bytes of a body whose client was gone before it could be read are free again', async (t) => {
  const reader = new BodyReader(4)
  const { request, client } = await started(t, HEAD)
  client.destroy()
  await new Promise((resolve) => request.once('close', resolve))
  assert.equal(await bodyOf(reader, request), null)
  const next = await started(t, `${HEAD}body`)
  assert.equal(await bodyOf(reader, next.request), 'body')
})

test('a body in pieces is copied as it arrives, so that none of them is kept', async (t) => {
  const { request, client } = await started(t, HEAD)
  const body = bodyOf(new BodyReader(4), request)
  request.on('data', (piece: Buffer) => {
    piece.fill('?')
    client.write('dy')
  })
  client.write('bo')
  assert.equal(await body, 'body')
})
