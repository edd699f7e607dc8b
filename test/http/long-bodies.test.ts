/** Tests bodies over 64 KiB: whether the event loop or a thread reads them, their texts are stored and sent unchanged. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { CpuPool } from '../../src/cpu-pool/cpu-pool.ts'
import { onAnyStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { adminOf } from './admin/admin.ts'
import { granted, refused } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BYTES = 90_000

/** Repeats `unit` until its JSON has about `BYTES` bytes. */
const filled = (unit: string) =>
  unit.repeat(Math.floor(BYTES / (Buffer.byteLength(JSON.stringify(unit)) - 2)))

const KINDS: readonly [name: string, unit: string, reader: 'event loop' | 'thread'][] = [
  ['prose', 'The quick brown fox jumps over the lazy dog.\n', 'event loop'],
  ['Latin-1', 'Ünïcödé für jéden. ', 'event loop'],
  ['Japanese', '日本語のテキスト。', 'event loop'],
  ['emoji', 'x😀👩‍👩‍👧\u0000\u007f\u2028', 'event loop'],
  ['a data URI', 'data:image/png;base64,iVBORw0KGgo/+=', 'event loop'],
  ['backslashes', 'C:\\temp\\', 'event loop'],
  ['quoted JSON', '{"a":"\\"b\\""},', 'thread'],
]

/** Returns a function that returns how many bodies threads have read since this call. */
function countReads(t: TestContext): () => number {
  let reads = 0
  const { run } = CpuPool.prototype
  t.mock.method(CpuPool.prototype, 'run', function (this: CpuPool, ...given: Parameters<CpuPool['run']>) {
    if (given[0] === 'read body') reads += 1
    return run.apply(this, given)
  })
  return () => reads
}

onAnyStore(() => {
  test('a long text is stored and sent byte for byte, and few values are read by the event loop', async (t) => {
    const { parley, models } = await startStage(t)
    const [reads, admin, key] = [countReads(t), await adminOf(parley), await parley.key()]
    for (const [name, unit, reader] of KINDS) {
      const [before, content] = [reads(), filled(unit)]
      const messages = [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content },
      ]
      const body = JSON.stringify(job({ messages }))
      assert.ok(Buffer.byteLength(body) > 64 * 1024, name)
      const answer = granted(await parley.post(MESSAGES, body, key), 200)
      assert.equal(reads() - before, reader === 'thread' ? 1 : 0, name)
      const sent = models.completions().at(-1)?.text ?? ''
      assert.ok(sent.includes(`"messages":${JSON.stringify(messages)}`), `${name}: ${sent.slice(0, 200)}`)
      const stored = granted(await admin.get(`/jobs/${answer.job_id}/content`), 200)
      assert.deepEqual(stored.messages, messages, name)
    }
  })

  test('a body may begin with a byte order mark, as files from Windows do', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key()
    for (const content of ['Hello', filled('{"a":"\\"b\\""},')]) {
      const body = job({ messages: [{ role: 'user', content }] })
      granted(await parley.post(MESSAGES, `\ufeff${JSON.stringify(body)}`, key), 200)
      assert.deepEqual(models.completions().at(-1)?.body.messages, body.messages)
    }
  })

  test('413: a body of millions of tiny values, which a thread has not enough memory to parse', async (t) => {
    const settings = { cpu: { thread_heap_mb: 64 }, limits: { batch_body_bytes: 24 * 1024 * 1024 } }
    const { parley } = await startStage(t, { settings })
    const body = `[${'{},'.repeat(7_000_000)}{}]`
    const { details } = refused(await parley.post(`${MESSAGES}/batches`, body, await parley.key()), 413)
    assert.match(details ?? '', /cpu\.thread_heap_mb/)
  })

  test('a long text that is not UTF-8 is rejected like a short one', async (t) => {
    const { parley } = await startStage(t)
    const body = Buffer.from(JSON.stringify(job({ messages: [{ role: 'user', content: filled('text ') }] })))
    body[body.length - 1000] = 0xff
    const headers = { 'content-type': 'application/json', 'x-api-key': await parley.key() }
    const answer = refused(await parley.request(MESSAGES, { method: 'POST', headers, body }), 400)
    assert.match(answer.details ?? '', /not valid UTF-8/)
  })

  test('a wrong parameter is rejected with a long body, too', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const answers = ['Hello', filled('{"a":"\\"b\\""},')].map((content) =>
      parley.post(`${MESSAGES}?include=everything`, job({ messages: [{ role: 'user', content }] }), key),
    )
    const [short, long] = (await Promise.all(answers)).map((answer) => refused(answer, 400))
    assert.deepEqual(long, short)
  })

  test('a long body of many values or levels is read by a thread', async (t) => {
    const { parley } = await startStage(t)
    const [reads, key] = [countReads(t), await parley.key()]
    const bodies = ['[', '0,', '"",'].map((unit) => `{"a":[${unit.repeat(BYTES / unit.length)}`)
    for (const body of bodies) refused(await parley.post(MESSAGES, body, key), 400)
    assert.equal(reads(), bodies.length)
  })
})
