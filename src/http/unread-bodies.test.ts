/** The rest of a rejected request's body is read at a limited rate, so that many such bodies do not block the event loop. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { finished } from 'node:stream/promises'
import test, { type TestContext } from 'node:test'
import { openLine } from '../../test/http/raw-http.ts'
import { startStage } from '../../test/http/stage.ts'
import type { Parley } from '../../test/parley.ts'

const MIB = 1024 * 1024
const MIB_PER_SECOND = 32
const BURST_MIB = 4
const STEP_MS = 5

/** The clock stands still, so the server reads only what it may read at once. */
const start = (t: TestContext) =>
  startStage(t, { settings: { limits: { rejections_per_second: 1_000_000 }, trust_proxy: true } })

const head = (bytes: number, from: string) =>
  `POST /api/v1/messages HTTP/1.1\r\nhost: parley\r\nx-forwarded-for: ${from}\r\ncontent-length: ${bytes}\r\n\r\n`

/** The response to the second request shows that the body of the first one has been read. */
async function upload(parley: Parley, mib: number, from = '192.0.2.1') {
  const line = openLine(parley)
  line.send(head(mib * MIB, from))
  assert.match(await line.until(/"success":false/), /^HTTP\/1.1 401 [\s\S]*connection: keep-alive/i)
  line.send(Buffer.alloc(mib * MIB, 'x'))
  line.send('GET /healthz HTTP/1.1\r\nhost: parley\r\n\r\n')
  const upload = { isRead: false, hangUp: line.hangUp }
  void line.until(/HTTP\/1.1 200 /).then(() => {
    upload.isRead = true
  })
  return upload
}

test('what is left of a rejected upload is read at the pace, and its connection serves the next request', async (t) => {
  const { parley, clock } = await start(t)
  // Even after a long pause, no more is read at once than at the start.
  for (const [mib, pauseMs] of [
    [36, 0],
    [12, 3_600_000],
  ] as const) {
    clock.skip(pauseMs)
    const uploaded = await upload(parley, mib)
    let movedMs = 0
    for (; !uploaded.isRead; movedMs += STEP_MS) {
      await parley.get('/healthz')
      clock.advance(STEP_MS)
    }
    assert.ok(movedMs >= ((mib - BURST_MIB) / MIB_PER_SECOND) * 1000, `read in ${movedMs} ms`)
    uploaded.hangUp()
  }
})

test('an upload that is buffered in several pieces is read in full', async (t) => {
  const { parley } = await start(t)
  for (const bytes of [70_000, 98_304, 130_000, 200_000]) {
    const line = openLine(parley)
    line.send(head(bytes, '192.0.2.1'))
    line.send(Buffer.alloc(bytes, 'x'))
    line.send('GET /healthz HTTP/1.1\r\nhost: parley\r\n\r\n')
    assert.match(await line.until(/HTTP\/1.1 200 /), /^HTTP\/1.1 401 /)
    line.hangUp()
  }
})

test('what is left of a file whose upload has failed is read, and its connection serves the next request', async (t) => {
  const { parley } = await start(t)
  const key = await parley.key()
  const part = '--xyz\r\ncontent-disposition: form-data; name="other"; filename="a"\r\n\r\nx'
  for (const bytes of [50_000, 2_000_000]) {
    const line = openLine(parley)
    line.send(`POST /v1/files HTTP/1.1\r\nhost: parley\r\nauthorization: Bearer ${key}\r\n`)
    line.send(`content-type: multipart/form-data; boundary=xyz\r\ncontent-length: ${bytes}\r\n\r\n`)
    line.send(part.padEnd(bytes / 2, 'x'))
    assert.match(await line.until(/Only the field file/), /^HTTP\/1.1 400 /)
    line.send(Buffer.alloc(bytes / 2, 'x'))
    line.send('GET /healthz HTTP/1.1\r\nhost: parley\r\n\r\n')
    await line.until(/HTTP\/1.1 200 /)
    line.hangUp()
  }
})

test('a client that closes its connection after each response can send its body to the end, and is not reset', async (t) => {
  const { parley } = await start(t)
  const { hostname, port } = new URL(parley.url)
  for (const bytes of [64 * 1024, 3 * MIB]) {
    const socket = connect(Number(port), hostname)
    socket.write(head(bytes, '192.0.2.1').replace('host:', 'connection: close\r\nhost:'))
    const [response] = await once(socket, 'data')
    assert.match(String(response), /^HTTP\/1.1 401 [\s\S]*connection: close/i)
    socket.resume().end(Buffer.alloc(bytes, 'x'))
    await finished(socket)
  }
})

test('the uploads of one address delay that of another by half', async (t) => {
  const { parley, clock } = await start(t)
  const many = await Promise.all([1, 2, 3, 4].map(() => upload(parley, 12)))
  const other = await upload(parley, 12, '192.0.2.2')
  while (!other.isRead) {
    await parley.get('/healthz')
    clock.advance(STEP_MS)
  }
  assert.deepEqual(
    many.map(({ isRead }) => isRead),
    [false, false, false, false],
  )
  for (const { hangUp } of [...many, other]) hangUp()
})

test('when too many rejected uploads wait, the connection of one more is closed after its response', async (t) => {
  const { parley } = await start(t)
  const fill = (from: string) =>
    Promise.all(
      Array.from({ length: 64 }, async () => {
        const line = openLine(parley)
        line.send(head(MIB, from))
        assert.match(await line.until(/"success":false/), /connection: keep-alive/i)
        return line
      }),
    )
  const isClosed = async (from: string) => {
    const more = openLine(parley)
    more.send(head(MIB, from))
    const [response] = (await more.closed).split('\r\n\r\n', 1)
    assert.match(response ?? '', /^HTTP\/1.1 401 [\s\S]*connection: close/i)
  }
  const lines = await fill('192.0.2.1')
  // One address cannot prevent the bodies of other addresses from waiting.
  await isClosed('192.0.2.1')
  for (const from of ['192.0.2.2', '192.0.2.3', '192.0.2.4']) lines.push(...(await fill(from)))
  await isClosed('192.0.2.5')
  for (const { hangUp } of lines) hangUp()
  await Promise.all(lines.map(({ closed }) => closed))
  // When the server notices that a client has disconnected, another body may wait.
  for (let isKept = false; !isKept; ) {
    t.signal.throwIfAborted()
    const line = openLine(parley)
    line.send(head(MIB, '192.0.2.1'))
    isKept = /connection: keep-alive/i.test(await line.until(/"success":false/))
    line.hangUp()
  }
})
