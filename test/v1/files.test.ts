/** Tests files below /v1 with OpenAI's own client and with requests that it would never send. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import test from 'node:test'
import OpenAI, { toFile } from 'openai'
import { request } from 'undici'
import { deleteAccount } from '../../src/admin/deletion.ts'
import { PIECE_BYTES } from '../../src/store/file-store.ts'
import { isPostgres } from '../../src/store/open.ts'
import { FakeClock } from '../fake-clock.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Parley, startParley } from '../parley.ts'
import { connectPostgres } from '../postgres/connection.ts'
import { LONG } from '../support/long-form.ts'
import { onFirstUse } from '../support/on-first-use.ts'
import { openaiOf } from './official-client.ts'

const LINES = Buffer.from('{"custom_id":"a"}\n')

function multipart(parts: Readonly<Record<string, string>>, content: Uint8Array = LINES) {
  const fields = Object.entries(parts).map(
    ([name, value]) => `--xyz\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  )
  return Buffer.concat([Buffer.from(HEAD), content, Buffer.from(`\r\n${fields.join('')}--xyz--\r\n`)])
}

async function send(
  parley: Parley,
  key: string,
  body: Uint8Array,
  type = 'multipart/form-data; boundary=xyz',
) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': type }
  return parley.request('/v1/files', { method: 'POST', headers, body: new Uint8Array(body) })
}

/** Nothing of the account may be stored, not even something that retention would delete later. */
async function assertNothingStored(parley: Parley, account: string): Promise<void> {
  assert.equal((await parley.store.quotaUse(account)).storedBytes, 0)
  const id = `01890a5d-ac96-7000-8000-${randomBytes(6).toString('hex')}`
  const isFirst = await parley.store.beginFile({ id, account, createdAtMs: 0 }, 1)
  assert.ok(isFirst, 'a file is left')
}

onEachStore(() => {
  const settings = { tiers: { user_go: { max_file_bytes: 300_000 } } }
  const shared = onFirstUse((t) => startParley(t, { settings }))
  let accounts = 0
  const enter = async (tier = 'user_max') => {
    const parley = await shared()
    const account = `account-${++accounts}`
    const key = await parley.key(tier, account)
    return { parley, account, key, openai: openaiOf(parley, key, { maxRetries: 0 }) }
  }

  test('the official client uploads from a stream and from memory, reads, lists and deletes', async () => {
    const { parley, account, openai } = await enter()
    const content = randomBytes(3 * PIECE_BYTES + 5)
    const path = join(parley.folder, 'lines.jsonl')
    await writeFile(path, content)
    const first = await openai.files.create({
      file: createReadStream(path),
      purpose: 'batch',
      expires_after: { anchor: 'created_at', seconds: 3600 },
    })
    assert.match(first.id, /^file-/)
    const { object, bytes, filename, purpose, status } = first
    assert.deepEqual(
      [object, bytes, filename, purpose, status],
      ['file', content.length, 'lines.jsonl', 'batch', 'processed'],
    )
    assert.equal((first.expires_at ?? 0) - first.created_at, 3600)
    const second = await openai.files.create({ file: await toFile(LINES, 'b.jsonl'), purpose: 'batch' })
    assert.equal((second.expires_at ?? 0) - second.created_at, 2_592_000)
    const empty = await openai.files.create({
      file: await toFile(Buffer.alloc(0), 'c.jsonl'),
      purpose: 'batch',
    })

    assert.deepEqual(await openai.files.retrieve(first.id), first)
    assert.deepEqual(await openai.files.waitForProcessing(second.id), second)
    const download = await openai.files.content(first.id)
    assert.deepEqual(Buffer.from(await download.arrayBuffer()), content)
    assert.equal(await (await openai.files.content(second.id)).text(), LINES.toString())
    assert.equal(await (await openai.files.content(empty.id)).text(), '')

    const all: string[] = []
    for await (const file of openai.files.list({ limit: 2 })) all.push(file.id)
    assert.deepEqual(all, [empty.id, second.id, first.id])
    const page = await openai.files.list({ order: 'asc', limit: 1, after: first.id, purpose: 'batch' })
    assert.deepEqual(page.data, [second])
    assert.equal(page.has_more, true)
    assert.deepEqual((await openai.files.list({ purpose: 'batch_output' })).data, [])

    assert.deepEqual(await openai.files.delete(first.id), { id: first.id, object: 'file', deleted: true })
    await assert.rejects(openai.files.retrieve(first.id), OpenAI.NotFoundError)
    await openai.files.delete(second.id)
    await openai.files.delete(empty.id)
    await assertNothingStored(parley, account)
  })

  test('a HEAD request for a content has its length, and reads none of it', async (t) => {
    const { parley, key } = await enter()
    const { body } = await send(parley, key, multipart({ purpose: 'batch' }))
    const { mock } = t.mock.method(parley.store, 'readPiece')
    const headers = { authorization: `Bearer ${key}` }
    const answer = await parley.request(`/v1/files/${body.id}/content`, { method: 'HEAD', headers })
    assert.deepEqual([answer.status, answer.headers.get('content-length')], [200, `${LINES.length}`])
    assert.equal(mock.callCount(), 0)
  })

  test('uploads that cannot be read get 400, 413 or 415, and leave nothing behind', async () => {
    const { parley, account, key } = await enter('user_go')
    const whole = multipart({ purpose: 'batch' }, randomBytes(290_000))
    const fields = Array.from({ length: 40 }, (_, n) => [`f${n}`, ''])
    const cases: readonly [string, number, Uint8Array, string?][] = [
      ['truncated in the file', 400, whole.subarray(0, 280_000)],
      ['truncated in a field', 400, whole.subarray(0, -20)],
      ['random bytes', 400, randomBytes(200_000)],
      ['no boundary', 400, whole, 'multipart/form-data'],
      ['another boundary', 400, whole, 'multipart/form-data; boundary=abc'],
      ['empty', 400, Buffer.alloc(0)],
      ['no file', 400, Buffer.from(REST.trimStart())],
      ['other purpose', 400, multipart({ purpose: 'assistants' })],
      ['no purpose', 400, multipart({})],
      ['wrong lifetime', 400, multipart({ purpose: 'batch', 'expires_after[anchor]': 'created_at' })],
      ['long field', 400, multipart({ purpose: 'x'.repeat(5000) })],
      ['many fields', 400, multipart(Object.fromEntries(fields))],
      ['two files', 400, Buffer.concat([multipart({}).subarray(0, -9), multipart({ purpose: 'batch' })])],
      [
        'NUL in the name',
        400,
        Buffer.from(`${multipart({ purpose: 'batch' })}`.replace('a.json', 'a\0.json')),
      ],
      ['too large', 413, multipart({ purpose: 'batch' }, randomBytes(300_001))],
      ['far too large', 413, multipart({ purpose: 'batch' }, randomBytes(1_000_000))],
      ['JSON', 415, Buffer.from('{}'), 'application/json'],
      ['form', 415, Buffer.from('purpose=batch'), 'application/x-www-form-urlencoded'],
    ]
    for (const [name, status, body, type] of cases) {
      const answer = await send(parley, key, body, type)
      assert.equal(answer.status, status, `${name}: ${answer.text}`)
      assert.deepEqual(Object.keys(answer.body.error), ['message', 'type', 'param', 'code'], name)
      assert.equal((await parley.store.quotaUse(account)).storedBytes, 0, name)
    }
    await assertNothingStored(parley, account)
    const listed = await parley.request('/v1/files?purpose=a%00', {
      headers: { authorization: `Bearer ${key}` },
    })
    assert.deepEqual([listed.status, listed.body.error?.param], [400, 'purpose'])
  })

  test('a file over the limit, of a length that is not declared, gets 413 and leaves nothing behind', async (t) => {
    // The long form uploads 201 MB, with the limit that every tier has.
    const settings = LONG ? {} : { tiers: { user_max: { max_file_bytes: 2_000_000 } } }
    const parley = await startParley(t, { settings })
    const piece = randomBytes(1_000_000)
    const body = async function* () {
      yield Buffer.from(HEAD)
      for (let left = LONG ? 201 : 3; left > 0; left--) yield piece
      yield Buffer.from(REST)
    }
    const headers = {
      authorization: `Bearer ${await parley.key()}`,
      'content-type': 'multipart/form-data; boundary=xyz',
    }
    const answer = await request(`${parley.url}/v1/files`, {
      method: 'POST',
      headers,
      body: Readable.from(body()),
    })
    assert.equal(answer.statusCode, 413)
    assert.match(await answer.body.text(), /your tier allows \d+ bytes/)
    await assertNothingStored(parley, 'user_max')
  })

  test('the limits of an account: number of files, stored bytes, a suspension', async (t) => {
    const parley = await startParley(t, {
      settings: { tiers: { user_go: { max_files: 2, max_stored_bytes: 1_000_000 } } },
    })
    const key = await parley.key('user_go')
    const upload = (bytes: number) => send(parley, key, multipart({ purpose: 'batch' }, randomBytes(bytes)))
    assert.equal((await upload(600_000)).status, 200)
    const over = await upload(600_000)
    assert.deepEqual([over.status, over.body.error.code], [429, 'insufficient_quota'])
    assert.equal((await parley.store.quotaUse('user_go')).storedBytes, 600_000)
    assert.equal((await upload(10)).status, 200)
    const third = await upload(10)
    assert.deepEqual([third.status, third.headers.get('x-should-retry')], [429, 'false'])
    const max = await parley.key('user_max')
    await parley.store.suspend('user_max', 1)
    assert.equal((await send(parley, max, multipart({ purpose: 'batch' }))).status, 403)
  })

  test('an upload for which the database has no space left gets 503, and leaves nothing behind', async (t) => {
    const parley = await startParley(t)
    // For SQLite, test/process/disk-full.test.ts fills a file system.
    if (!isPostgres(parley.database)) return
    const database = await connectPostgres(t, parley.database)
    await database.query(`
      create function disk_is_full() returns trigger language plpgsql as
        $$ begin raise exception 'could not extend file' using errcode = '53100'; end $$;
      create trigger disk_is_full before insert on file_pieces for each row when (new.piece = 2)
        execute function disk_is_full()`)
    const key = await parley.key()
    const content = randomBytes(5 * PIECE_BYTES)
    const answer = await send(parley, key, multipart({ purpose: 'batch' }, content))
    assert.equal(answer.status, 503, answer.text)
    await assertNothingStored(parley, 'user_max')
    const { rows } = await database.query('select count(*)::int as pieces from file_pieces')
    assert.deepEqual(rows, [{ pieces: 0 }])
  })

  test('an upload whose client hangs up leaves nothing behind', async () => {
    const { parley, account, key } = await enter()
    const socket = await begunUpload(parley, key, 2_000_000, account)
    socket.destroy()
    for (let left = 1; left > 0; ) left = (await parley.store.quotaUse(account)).storedBytes
    await assertNothingStored(parley, account)
  })

  test('a download that its client ends early is logged and counted as 499, and a whole one as 200', async (t) => {
    const parley = await startParley(t)
    const key = await parley.key()
    const sent = await send(parley, key, multipart({ purpose: 'batch' }, randomBytes(20_000_000)))
    const route = '/v1/files/:file/content'
    const path = `/v1/files/${JSON.parse(sent.text).id}/content`
    const socket = connectTo(parley)
    socket.write(`GET ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\n\r\n`)
    await once(socket, 'data')
    socket.destroy()
    const metric = (status: number) =>
      `parley_http_requests_total{method="GET",route="${route}",status="${status}"} 1\n`
    while (!(await parley.get('/metrics')).text.includes(metric(499))) t.signal.throwIfAborted()
    const line = parley.log.findLast((one) => one.route === route)
    assert.deepEqual([line?.message, line?.status, line?.account], ['request completed', 499, 'user_max'])
    await parley.request(path, { headers: { authorization: `Bearer ${key}` } })
    while (!(await parley.get('/metrics')).text.includes(metric(200))) t.signal.throwIfAborted()
    assert.ok((await parley.get('/metrics')).text.includes(metric(499)))
  })

  test('an account uploads two files at a time, beyond the time limit of requests but not too slowly', async (t) => {
    const clock = new FakeClock()
    const parley = await startParley(t, { clock })
    const key = await parley.key()
    const sockets = [await begunUpload(parley, key), await begunUpload(parley, key)]
    const third = await send(parley, key, multipart({ purpose: 'batch' }))
    assert.deepEqual([third.status, third.headers.get('retry-after-ms')], [429, '1000'])
    let isAnswered = false
    const answers = Promise.all(sockets.map(answerOn)).finally(() => {
      isAnswered = true
    })
    // The client was fast enough at first, and sends nothing now. The server may still be storing what it has sent.
    while (!isAnswered) {
      clock.advance(10_000)
      for (let call = 0; call < 5; call++) await parley.store.ping()
    }
    for (const answer of await answers) {
      assert.match(answer, /^HTTP\/1.1 408 /)
      assert.match(answer, /x-should-retry: false/)
    }
    for (const socket of sockets) socket.destroy()
    assert.equal((await send(parley, key, multipart({ purpose: 'batch' }))).status, 200)
  })

  test('an upload may take longer than other requests', async (t) => {
    const settings = { limits: { header_timeout_seconds: 1, request_timeout_seconds: 1 } }
    // The injected clock, which measures the upload's pace, stands still, but Node's does not.
    const parley = await startParley(t, { clock: new FakeClock(), settings })
    const key = await parley.key()
    const upload = await begunUpload(parley, key, 0)
    const other = connectTo(parley)
    other.write('POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n')
    other.write(`authorization: Bearer ${key}\r\ncontent-type: application/json\r\n\r\n{`)
    assert.match(await answerOn(other), /^HTTP\/1.1 408 /)
    const answer = answerOn(upload)
    upload.write(REST)
    assert.match(await answer, /^HTTP\/1.1 200 /)
  })

  test('the time of a file begins with its upload', async (t) => {
    const clock = new FakeClock()
    const parley = await startParley(t, { clock })
    const upload = await begunUpload(parley, await parley.key(), 0)
    clock.advance(3000)
    const answer = answerOn(upload)
    upload.write(REST)
    const { created_at, expires_at } = JSON.parse((await answer).split('\r\n\r\n')[1] ?? '')
    assert.equal(expires_at - created_at, 2_592_000)
  })

  test('deleting an account deletes its files', async () => {
    const parley = await shared()
    const upload = async (account: string) =>
      send(parley, await parley.key('user_max', account), multipart({ purpose: 'batch' }))
    const [mine, others] = [await upload('acme'), await upload('other')]
    const { store } = parley
    // A deletion need not wait for other nodes here.
    const clock = new FakeClock()
    clock.after = (_ms, work) => {
      work()
      return () => {}
    }
    await deleteAccount(store, clock, { account: 'acme', scrub: false, onProgress: () => {} })
    const pieceOf = (file: typeof mine) => store.readPiece(file.body.id.slice('file-'.length), 0)
    assert.equal(await pieceOf(mine), null)
    assert.equal(Buffer.from((await pieceOf(others)) ?? []).toString(), LINES.toString())
  })

  test('a download ends when its file is deleted, and the server goes on', async () => {
    const { openai } = await enter()
    const file = await openai.files.create({
      file: await toFile(randomBytes(40 * PIECE_BYTES), 'a'),
      purpose: 'batch',
    })
    const response = await openai.files.content(file.id)
    await openai.files.delete(file.id)
    await assert.rejects(response.arrayBuffer())
    assert.equal((await openai.models.list()).object, 'list')
  })
})

const HEAD = '--xyz\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
const REST = '\r\n--xyz\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--xyz--\r\n'

/**
 * Starts an upload of a MiB and sends its file. Most of the file is then stored.
 * @param moreBytes how many further bytes it promises
 */
async function begunUpload(parley: Parley, key: string, moreBytes = 2_000_000, account = 'user_max') {
  const stored = async () => (await parley.store.quotaUse(account)).storedBytes
  const expected = (await stored()) + 3 * PIECE_BYTES
  const socket = connectTo(parley)
  const content = randomBytes(4 * PIECE_BYTES)
  const headers = [
    'POST /v1/files HTTP/1.1',
    'host: a',
    `authorization: Bearer ${key}`,
    'content-type: multipart/form-data; boundary=xyz',
    `content-length: ${HEAD.length + content.length + REST.length + moreBytes}`,
  ]
  socket.write(`${headers.join('\r\n')}\r\n\r\n${HEAD}`)
  socket.write(content)
  while ((await stored()) < expected);
  return socket
}

function connectTo(parley: Parley) {
  const { hostname, port } = new URL(parley.url)
  return connect(Number(port), hostname)
}

async function answerOn(socket: ReturnType<typeof connect>): Promise<string> {
  const [piece] = await once(socket, 'data')
  return String(piece)
}
