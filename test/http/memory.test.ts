/**
 * Tests how much of `limits.memory_bytes` requests and responses hold, and what happens to requests that would exceed a share.
 */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import test, { type TestContext } from 'node:test'
import { CpuPool } from '../../src/cpu-pool/cpu-pool.ts'
import { reply, type Script } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { eventually } from '../support/eventually.ts'
import { BATCHES, callerOf, idOf, MESSAGES, says, startScene } from './caller.ts'
import { completed, refused, timedOut } from './expect.ts'
import { openLine, talk } from './raw-http.ts'

const MIB = 1024 * 1024
/** The minimum of `limits.memory_bytes` gives uploads a share of 2 MiB, and requests and answers 4 MiB each. */
const memory_bytes = 16 * MIB
/** The operating system buffers fewer bytes than this for a connection. */
const LARGE = `${'x'.repeat(14_000_000)}€`

function start(t: TestContext, script: Script = () => undefined) {
  const limits = { memory_bytes, body_bytes: 4 * MIB, batch_body_bytes: 4 * MIB }
  return startScene(t, { settings: { limits }, script, account: 'mine' })
}

function head(path: string, key: string, fields: readonly string[], method = 'POST'): string {
  const lines = [`${method} ${path} HTTP/1.1`, 'host: parley', `x-api-key: ${key}`, ...fields]
  return `${lines.join('\r\n')}\r\n\r\n`
}

const ofLength = (bytes: number) => ['content-type: application/json', `content-length: ${bytes}`]
const CHUNKED = ['content-type: application/json', 'transfer-encoding: chunked', 'connection: close']

async function holds(parley: Parley, share: string, bytes: RegExp): Promise<void> {
  const line = new RegExp(`^parley_memory_bytes\\{share="${share}",state="held"\\} (\\d+)$`, 'm')
  const held = async () => line.exec((await parley.get('/metrics')).text)?.[1] ?? ''
  await eventually(held, (now) => bytes.test(now), { withinMs: 20_000 })
}

async function nothingHeld(parley: Parley): Promise<void> {
  const held = async () => {
    const { text } = await parley.get('/metrics')
    return [...text.matchAll(/^parley_memory_bytes\{share="(\w+)",state="held"\} (\d+)$/gm)]
      .filter(([, , bytes]) => bytes !== '0')
      .map(([, share, bytes]) => `${share}: ${bytes}`)
  }
  await eventually(held, (shares) => shares.length === 0, { withinMs: 20_000 })
}

onEachStore(() => {
  test('an upload beyond the part of its account is rejected before it is sent, and no upload of another account is', async (t) => {
    const { parley, caller: mine } = await start(t)
    const other = await callerOf(parley, 'user_max', 'other')
    const first = openLine(parley)
    first.send(head(BATCHES, mine.key, ofLength(900_000)))
    first.send('[')
    await holds(parley, 'uploads', /^9\d{5}$/)
    const second = openLine(parley)
    second.send(head(BATCHES, mine.key, [...ofLength(900_000), 'expect: 100-continue']))
    const rejected = await second.until(/memory_bytes/)
    assert.match(rejected, /^HTTP\/1\.1 503 /)
    assert.match(rejected, /^retry-after: 5\r$/m)
    assert.match(rejected, /share of the memory for uploads \(limits\.memory_bytes\)/)
    const third = openLine(parley)
    third.send(head(BATCHES, other.key, [...ofLength(800_000), 'expect: 100-continue']))
    await third.until(/^HTTP\/1\.1 100 Continue/)
    await mine.enqueue([job()])
    for (const line of [first, second, third]) line.hangUp()
    await nothingHeld(parley)
  })

  test('a request that waits behind another on its connection leaves nothing behind when the client hangs up', async (t) => {
    const { parley, caller, models } = await start(t, () => reply.text('x'.repeat(300_000)))
    const id = idOf(await caller.create())
    models.script = () => reply.stall()
    const body = JSON.stringify(says('never answered'))
    const line = openLine(parley)
    const read = head(`${MESSAGES}/${id}`, caller.key, [], 'GET')
    line.send(head(MESSAGES, caller.key, ofLength(body.length)) + body + read)
    await holds(parley, 'requests', /^[1-9]/)
    await models.received(2)
    await holds(parley, 'answers', /^0$/)
    line.hangUp()
    models.release()
    await nothingHeld(parley)
  })

  test('a request waits for what other accounts hold', async (t) => {
    const { parley, clock } = await start(t)
    const accounts = ['one', 'two', 'three'].map((account) => parley.key('user_max', account))
    const [one = '', two = '', three = ''] = await Promise.all(accounts)
    const body = `[${' '.repeat(900_000)}${JSON.stringify(job())}]`
    const slow = [one, two].map((key) => {
      const line = openLine(parley)
      line.send(head(BATCHES, key, ofLength(body.length)))
      line.send(body.slice(0, -1))
      return line
    })
    await holds(parley, 'uploads', /^1[89]\d{5}$/)
    const waiting = openLine(parley)
    waiting.send(head(BATCHES, three, ofLength(body.length)))
    waiting.send(body)
    await clock.timerSet((ms) => ms === 10_000)
    slow[0]?.send(body.slice(-1))
    assert.match(await waiting.until(/job_ids|success":false/), /^HTTP\/1\.1 202 /)
    for (const line of [...slow, waiting]) line.hangUp()
    await nothingHeld(parley)
  })

  test('a body of unknown length is read whatever its pieces are, up to its limit', async (t) => {
    const { parley, caller } = await start(t)
    const send = (body: string, size: number) => {
      const chunks: string[] = []
      for (let at = 0; at < body.length; at += size) {
        const chunk = body.slice(at, at + size)
        chunks.push(`${chunk.length.toString(16)}\r\n${chunk}\r\n`)
      }
      return talk(parley, `${head(BATCHES, caller.key, CHUNKED)}${chunks.join('')}0\r\n\r\n`)
    }
    const body = (length: number) => JSON.stringify([says('x'.repeat(length))])
    for (const [length, size] of [
      [100, 1],
      [9000, 7],
      [50_000, 1],
      [300_000, 60_000],
    ] as const) {
      const answer = await send(body(length), size)
      assert.equal(answer.status, 202, `${length} bytes by ${size}: ${answer.text}`)
    }
    const line = openLine(parley)
    line.send(head(BATCHES, caller.key, CHUNKED))
    line.send(`8000\r\n${'x'.repeat(0x8000)}`)
    line.hangUp()
    assert.equal((await send('x'.repeat(4 * MIB + 1), 65_536)).status, 413)
    await nothingHeld(parley)
  })

  test('a thread is sent the bytes of a body of unknown length, and not what might have come', async (t) => {
    const { parley, caller } = await start(t)
    const sizes: number[] = []
    const { run } = CpuPool.prototype
    // The call transfers the buffer to the thread, so the size must be read before the call.
    t.mock.method(CpuPool.prototype, 'run', function (this: CpuPool, ...given: Parameters<CpuPool['run']>) {
      const [, input] = given
      if ('bytes' in input) sizes.push(input.bytes.buffer.byteLength)
      return run.apply(this, given)
    })
    const body = JSON.stringify([says('x'.repeat(300_000))])
    const sent = `${head(BATCHES, caller.key, CHUNKED)}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
    assert.equal((await talk(parley, sent)).status, 202)
    assert.deepEqual(sizes, [body.length])
  })

  test('nothing of a body is read for an unknown route or without a key', async (t) => {
    const { parley, caller } = await start(t)
    for (const [path, key, status] of [
      ['/api/v1/nothing', caller.key, 404],
      [BATCHES, 'none', 401],
    ] as const) {
      const line = openLine(parley)
      line.send(head(path, key, [...ofLength(3_000_000), 'expect: 100-continue']))
      assert.match(await line.closed, new RegExp(`^HTTP/1\\.1 ${status} `))
    }
  })

  test('large answers come as they were stored, and beyond the part of an account a read gets 503, a single create 202 with its id', async (t) => {
    const { parley, caller: mine, models } = await start(t, () => reply.text(LARGE))
    const other = await callerOf(parley, 'user_max', 'other')
    const created = await mine.create()
    assert.ok(completed(created) === LARGE, 'the answer is not the text of the model')
    await nothingHeld(parley)

    const { hostname, port } = new URL(parley.url)
    const neverReads = connect(Number(port), hostname)
    t.after(() => neverReads.destroy())
    neverReads.write(head(`${MESSAGES}/${idOf(created)}`, mine.key, [], 'GET'))
    await holds(parley, 'answers', /^\d{8}$/)
    const read = await mine.read(idOf(created))
    const { details } = refused(read, 503)
    assert.equal(read.headers.get('retry-after'), '5')
    assert.match(details ?? '', /share of the memory for answers \(limits\.memory_bytes\)/)
    const single = timedOut(await mine.ask('again'))
    models.script = () => reply.text('short')
    assert.equal(completed(await other.create()), 'short')
    neverReads.destroy()
    await nothingHeld(parley)
    assert.ok(completed(await mine.read(single)) === LARGE, 'the read is not the text of the model')
    await nothingHeld(parley)
  })

  test('a completion that becomes too large for the memory only in its escaped form can be asked for again', async (t) => {
    const numbers = Object.fromEntries(Array.from({ length: 6_300 }, (_, at) => [`n${at}`, 1]))
    const json = JSON.stringify(numbers)
    assert.ok(json.length < 65_000 && JSON.stringify(json).length > 70_000)
    const isJson: Script = ({ text }) => reply.text(text.includes('numbers') ? json : LARGE)
    const { parley, caller, models, clock } = await start(t, isJson)
    const { hostname, port } = new URL(parley.url)
    const id = idOf(await caller.create())
    const neverReads = connect(Number(port), hostname)
    t.after(() => neverReads.destroy())
    neverReads.write(head(`${MESSAGES}/${id}`, caller.key, [], 'GET'))
    await holds(parley, 'answers', /^\d{8}$/)
    const ask = (retries: number) => {
      const messages = [{ role: 'user', content: 'some numbers' }]
      const body = { model: 'gpt-5-mini', messages, response_format: { type: 'json_object' } }
      const headers = { authorization: `Bearer ${caller.key}`, 'x-stainless-retry-count': String(retries) }
      return parley.post('/v1/chat/completions', body, undefined, headers)
    }
    const waits = clock.timerSet((ms) => ms === 10_000)
    const asked = ask(0)
    await Promise.race([waits, asked])
    clock.advance(10_000)
    const first = await asked
    assert.deepEqual([first.status, first.headers.get('x-should-retry')], [503, 'true'])
    neverReads.destroy()
    await nothingHeld(parley)
    const second = await ask(1)
    assert.equal(second.body.choices[0].message.content, json)
    assert.equal(models.completions().length, 2)
  })

  test('a create that waits holds less than one that is read, and nothing when its client hangs up', async (t) => {
    const { parley, caller, models } = await start(t, () => reply.stall())
    const body = JSON.stringify(says('x'.repeat(100_000)))
    const line = openLine(parley)
    line.send(head(MESSAGES, caller.key, ofLength(body.length)))
    line.send(body)
    await models.received(1)
    await holds(parley, 'requests', /^20\d{4}$/)
    line.hangUp()
    models.release()
    await nothingHeld(parley)
  })
})
