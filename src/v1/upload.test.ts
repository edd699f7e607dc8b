/** Tests which time counts towards the minimum rate of an upload, and what happens if its client has already disconnected. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import test from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { readMultipart } from './upload.ts'

const PART = 'content-disposition: form-data; name="file"; filename="a.jsonl"'
const BODY = Buffer.from(`--xyz\r\n${PART}\r\n\r\n{}\r\n--xyz--\r\n`)

function arrived(): Readable {
  const headers = { 'content-type': 'multipart/form-data; boundary=xyz' }
  return Object.assign(Readable.from([BODY]), { headers, complete: true })
}

test('an upload is not too slow while what has arrived in full is being stored', async () => {
  const clock = new FakeClock()
  const request = arrived()
  const stored = Promise.withResolvers<void>()
  const read = readMultipart(request as IncomingMessage, { clock, onContent: () => stored.promise })
  await once(request, 'end')
  clock.advance(10_000)
  stored.resolve()
  assert.equal((await read).filename, 'a.jsonl')
})

test('an upload whose client is gone before it is read ends at once', async () => {
  const request = arrived().destroy()
  await once(request, 'close')
  const read = readMultipart(request as IncomingMessage, {
    clock: new FakeClock(),
    onContent: async () => {},
  })
  await assert.rejects(read, /The connection closed/)
})
