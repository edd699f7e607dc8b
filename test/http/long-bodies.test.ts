/** Tests bodies over 64 KiB. Their texts must be stored and sent unchanged, whether the event loop or a thread reads them. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { CpuPool } from '../../src/cpu-pool/cpu-pool.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { adminOf } from './admin/admin.ts'
import { idOf, MESSAGES, says, shareStage, startScene } from './caller.ts'
import { completed, failed, granted, refused } from './expect.ts'

const BYTES = 90_000

const filled = (unit: string) =>
  unit.repeat(Math.floor(BYTES / (Buffer.byteLength(JSON.stringify(unit)) - 2)))

const QUOTED_JSON = '{"a":"\\"b\\""},'
const KINDS: readonly [name: string, unit: string, reader: 'event loop' | 'thread'][] = [
  ['prose', 'The quick brown fox jumps over the lazy dog.\n', 'event loop'],
  ['Latin-1', 'Ünïcödé für jéden. ', 'event loop'],
  ['Japanese', '日本語のテキスト。', 'event loop'],
  ['emoji', 'x😀👩‍👩‍👧\u0000\u007f\u2028', 'event loop'],
  ['a data URI', 'data:image/png;base64,iVBORw0KGgo/+=', 'event loop'],
  ['backslashes', 'C:\\temp\\', 'event loop'],
  ['quoted JSON', QUOTED_JSON, 'thread'],
]

function countReads(t: TestContext): () => number {
  const { mock } = t.mock.method(CpuPool.prototype, 'run')
  return () => mock.calls.filter(({ arguments: given }) => given[0] === 'read body').length
}

onAnyStore(() => {
  const begin = shareStage()

  test('a long text is stored and sent byte for byte, and few values are read by the event loop', async (t) => {
    const { parley, caller, models } = await begin(t)
    const [reads, admin] = [countReads(t), await adminOf(parley)]
    for (const [name, unit, reader] of KINDS) {
      const [before, content] = [reads(), filled(unit)]
      const messages = [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content },
      ]
      const body = JSON.stringify(job({ messages }))
      assert.ok(Buffer.byteLength(body) > 64 * 1024, name)
      const id = idOf(await caller.post(MESSAGES, body))
      assert.equal(reads() - before, reader === 'thread' ? 1 : 0, name)
      const sent = models.completions().at(-1)?.text ?? ''
      assert.ok(sent.includes(`"messages":${JSON.stringify(messages)}`), `${name}: ${sent.slice(0, 200)}`)
      const stored = granted(await admin.get(`/jobs/${id}/content`), 200)
      assert.deepEqual(stored.messages, messages, name)
    }
  })

  test('a body may begin with a byte order mark, as files from Windows do', async (t) => {
    const { caller, models } = await begin(t)
    for (const content of ['Hello', filled(QUOTED_JSON)]) {
      const body = says(content)
      granted(await caller.post(MESSAGES, `\ufeff${JSON.stringify(body)}`), 200)
      assert.deepEqual(models.completions().at(-1)?.body.messages, body.messages)
    }
  })

  test('413: a body of millions of tiny values, which a thread has not enough memory to parse', async (t) => {
    const settings = { cpu: { thread_heap_mb: 64 }, limits: { batch_body_bytes: 24 * 1024 * 1024 } }
    const { caller, models } = await startScene(t, { settings })
    const values = (count: number) => `[${'{},'.repeat(count)}{}]`
    const { details } = refused(await caller.post(`${MESSAGES}/batches`, values(7_000_000)), 413)
    assert.match(details ?? '', /cpu\.thread_heap_mb/)
    models.script = () => reply.text(values(1_000_000))
    const response_format = { format: 'json' }
    const { code } = failed(await caller.ask('many', { response_format }))
    assert.equal(code, 'model_error', 'the job of such an answer fails')
    models.script = () => reply.text(values(1))
    completed(await caller.ask('few', { response_format }))
  })

  test('a long text that is not UTF-8 is rejected like a short one', async (t) => {
    const { parley, caller } = await begin(t)
    const body = Buffer.from(JSON.stringify(says(filled('text '))))
    body[body.length - 1000] = 0xff
    const headers = { 'content-type': 'application/json', 'x-api-key': caller.key }
    const answer = refused(await parley.request(MESSAGES, { method: 'POST', headers, body }), 400)
    assert.match(answer.details ?? '', /not valid UTF-8/)
  })

  test('a wrong parameter is rejected with a long body, too', async (t) => {
    const { caller } = await begin(t)
    const path = `${MESSAGES}?include=everything`
    const [short, long] = [
      await caller.post(path, says('Hello')),
      await caller.post(path, says(filled(QUOTED_JSON))),
    ]
    assert.deepEqual(refused(long, 400), refused(short, 400))
  })

  test('a long body of many values or levels is read by a thread', async (t) => {
    const { caller } = await begin(t)
    const reads = countReads(t)
    const bodies = ['[', '0,', '"",'].map((unit) => `{"a":[${unit.repeat(BYTES / unit.length)}`)
    for (const body of bodies) refused(await caller.post(MESSAGES, body), 400)
    assert.equal(reads(), bodies.length)
  })
})
