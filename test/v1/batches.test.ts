/** Tests batches below /v1 with OpenAI's own client. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import type OpenAI from 'openai'
import { toFile } from 'openai'
import { isPostgres } from '../../src/store/open.ts'
import type { Store } from '../../src/store/store.ts'
import { FakeClock } from '../fake-clock.ts'
import { granted } from '../http/expect.ts'
import { UNLIMITED_READS } from '../http/stage.ts'
import { reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, type Lifetime, type ParleyOptions, startParley } from '../parley.ts'
import { connectPostgres } from '../postgres/connection.ts'
import { eventually } from '../support/eventually.ts'
import { turnsOfList } from '../support/large-batches.ts'
import { onFirstUse } from '../support/on-first-use.ts'
import { openaiOf } from './official-client.ts'
import { type SharedStage, shared } from './shared-stage.ts'

const ADMIN = { authorization: `Bearer ${ADMIN_TOKEN}` }
const A_DAY_MS = 86_400_000
/** With these timeouts, a stalled call outlasts the day after which its batch expires. */
const UNHURRIED = {
  jobs: { run_timeout_seconds: 100_000 },
  upstreams: { openai: { call_timeout_seconds: 100_000, api_key_env: null } },
}
const RUNNING = 1000
const CHAT = '/v1/chat/completions'
type Batch = OpenAI.Batch
const numbered = (count: number, content?: string, over?: object) =>
  Array.from({ length: count }, (_, at) => chatLine(`${at}`, content, over))

interface Line {
  readonly custom_id: string
  readonly response: { readonly status_code: number; readonly body: unknown } | null
  readonly error: { readonly code: string } | null
}

const chatLine = (id: string, content = id, over: object = {}) => ({
  custom_id: id,
  method: 'POST',
  url: CHAT,
  body: { model: 'gpt-5-mini', messages: [{ role: 'user', content }], ...over },
})

async function startOwn(t: Lifetime, options: ParleyOptions) {
  const models = await startModelServer({}, t)
  const parley = await startParley(t, { upstream: models.baseUrl, ...options })
  t.after(() => models.release())
  return { models, parley }
}

function readSlowly(t: TestContext, store: Store, clock: FakeClock, ms: number): void {
  const readPiece = store.readPiece.bind(store)
  t.mock.method(store, 'readPiece', async (...given: Parameters<typeof readPiece>) => {
    const piece = await readPiece(...given)
    clock.advance(ms)
    return piece
  })
}

async function submit(openai: OpenAI, lines: readonly unknown[], over: object = {}): Promise<Batch> {
  const bytesOf = (line: unknown) => {
    if (line instanceof Uint8Array) return line
    return Buffer.from(typeof line === 'string' ? line : JSON.stringify(line))
  }
  const content = lines.flatMap((line) => [bytesOf(line), Buffer.from('\n')]).slice(0, -1)
  const file = await openai.files.create({
    file: await toFile(Buffer.concat(content), 'in.jsonl'),
    purpose: 'batch',
  })
  return openai.batches.create({
    input_file_id: file.id,
    endpoint: CHAT,
    completion_window: '24h',
    ...over,
  })
}

const once = (t: TestContext, openai: OpenAI, { id }: Batch, accept: (batch: Batch) => boolean) =>
  eventually(() => openai.batches.retrieve(id), accept, { signal: t.signal })

const ENDINGS = ['completed', 'failed', 'expired', 'cancelled']
const ended = (t: TestContext, openai: OpenAI, batch: Batch) =>
  once(t, openai, batch, ({ status }) => ENDINGS.includes(status))

const run = async (t: TestContext, openai: OpenAI, lines: readonly unknown[], over?: object) =>
  ended(t, openai, await submit(openai, lines, over))

async function linesOf(openai: OpenAI, fileId: string | undefined): Promise<Line[]> {
  if (fileId === undefined) return []
  const text = await (await openai.files.content(fileId)).text()
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

const codesOf = (lines: readonly Line[]) =>
  Object.fromEntries(lines.map(({ custom_id, error }) => [custom_id, error?.code]))

onEachStore(() => {
  const enter = shared(onFirstUse((t) => startOwn(t, {})))

  /** Without options, uses the shared Parley. With options, starts one for the test. */
  async function start(t: TestContext, options?: ParleyOptions): Promise<SharedStage> {
    return options === undefined ? enter() : shared(() => startOwn(t, options))()
  }

  const setCaps = async ({ parley, account }: SharedStage, jobs: number | 'none') => {
    const caps = { max_monthly_jobs: jobs, max_monthly_tokens: 'none' }
    granted(await parley.post(`/admin/api/accounts/${account}/caps`, caps, undefined, ADMIN), 200)
  }

  test('a batch runs each line once, and its output file has the answers', async (t) => {
    const { openai, models } = await start(t)
    const ids = Array.from({ length: 250 }, (_, n) => `line ${n}`)
    const created = await submit(
      openai,
      ids.map((id) => chatLine(id)),
      { metadata: { team: 'a' } },
    )
    assert.match(created.id, /^batch_/)
    const { object, status, endpoint, completion_window, metadata } = created
    assert.deepEqual(
      [object, status, endpoint, completion_window, metadata],
      ['batch', 'validating', CHAT, '24h', { team: 'a' }],
    )
    assert.equal((created.expires_at ?? 0) - created.created_at, 86_400)
    const batch = await ended(t, openai, created)
    assert.equal(batch.status, 'completed')
    assert.deepEqual(batch.request_counts, { total: 250, completed: 250, failed: 0 })
    assert.equal(batch.error_file_id, undefined)
    const output = await linesOf(openai, batch.output_file_id)
    assert.deepEqual(output.map(({ custom_id }) => custom_id).sort(), ids.toSorted())
    for (const { custom_id, response, error } of output) {
      assert.equal(error, null)
      assert.equal(response?.status_code, 200)
      const completion = response?.body as OpenAI.ChatCompletion
      assert.equal(completion.choices[0]?.message.content, `echo: ${custom_id}`)
    }
    assert.equal(models.completions().length, 250)
    const characters = ids.reduce((sum, id) => sum + id.length, 0)
    assert.equal(batch.usage?.input_tokens, characters)
    const file = await openai.files.retrieve(batch.output_file_id ?? '')
    assert.deepEqual([file.purpose, file.status], ['batch_output', 'processed'])
  })

  test('lines for responses, with a schema and with options', async (t) => {
    const { openai, models } = await start(t)
    models.script = () => reply.json({ river: 'Lena' })
    const line = {
      custom_id: 'r',
      method: 'POST',
      url: '/v1/responses',
      body: { model: 'gpt-5-mini', input: 'Name a river.', instructions: 'In Asia.', temperature: 0.2 },
    }
    const batch = await run(t, openai, [line], { endpoint: '/v1/responses' })
    const [output] = await linesOf(openai, batch.output_file_id)
    const body = output?.response?.body as OpenAI.Responses.Response
    assert.deepEqual([body.object, body.status, body.instructions], ['response', 'completed', 'In Asia.'])
    assert.equal(models.completions()[0]?.body.temperature, 0.2)
  })

  test('a file from Windows may begin with a byte order mark, and blank lines do not count', async (t) => {
    const { openai } = await start(t)
    const [first, second] = ['a', 'b'].map((id) => JSON.stringify(chatLine(id)))
    const batch = await run(t, openai, [`\ufeff${first}\r`, '\r', ' \t', `${second}\r`, '\r'])
    assert.deepEqual([batch.errors, batch.status], [undefined, 'completed'])
    assert.deepEqual(batch.request_counts, { total: 2, completed: 2, failed: 0 })
    assert.equal(batch.error_file_id, undefined)
    const output = await linesOf(openai, batch.output_file_id)
    assert.deepEqual(output.map(({ custom_id }) => custom_id).sort(), ['a', 'b'])
  })

  test('each wrong line is named, and nothing runs', async (t) => {
    const { openai, models, parley } = await start(t, {
      settings: {
        limits: { body_bytes: 100_000, batch_body_bytes: 100_000, json_depth: 10 },
        tiers: { user_max: { max_input_tokens: 100, models: ['gpt-5-mini'] } },
      },
    })
    const deep = `{"custom_id":"l","method":"POST","url":"${CHAT}","body":${'['.repeat(10)}${']'.repeat(10)}}`
    const batch = await run(t, openai, [
      chatLine('good'),
      'not json',
      '[1]',
      { ...chatLine('a'), method: 'GET' },
      { ...chatLine('b'), url: '/v1/responses' },
      { ...chatLine('c'), custom_id: '' },
      chatLine('good'),
      chatLine('d', 'Hello', { stream: true }),
      chatLine('e', 'Hello', { model: 'no-such-model' }),
      { ...chatLine('f'), body: { model: 'gpt-5-mini', messages: [] } },
      '',
      Buffer.concat([Buffer.from(JSON.stringify(chatLine('g')).slice(0, -1)), Buffer.from([0xff])]),
      { ...chatLine('h'), custom_id: 'x'.repeat(513) },
      { ...chatLine('i'), custom_id: 'a\0b' },
      { ...chatLine('j'), custom_id: 7 },
      chatLine('k', 'x'.repeat(100_001)),
      deep,
      chatLine('m', 'one word after the other '.repeat(100)),
      chatLine('n', 'Hello', { model: 'gpt-5' }),
      { ...chatLine('o'), body: [] },
      chatLine('p', 'Hello', { temperature: 'hot' }),
      chatLine('q', 'x'.repeat(70_000), { stream: true }),
      `${JSON.stringify(chatLine('good too'))}\r`,
    ])
    assert.equal(batch.status, 'failed')
    const named = (batch.errors?.data ?? []).map(({ line, code, param }) => [line, code, param])
    assert.deepEqual(named, [
      [2, 'invalid_json_line', null],
      [3, 'invalid_json_line', null],
      [4, 'invalid_method', 'method'],
      [5, 'mismatched_url', 'url'],
      [6, 'invalid_custom_id', 'custom_id'],
      [7, 'duplicate_custom_id', 'custom_id'],
      [8, 'invalid_request', 'body.stream'],
      [9, 'invalid_request', 'body.model'],
      [10, 'invalid_request', 'body.messages'],
      [12, 'invalid_json_line', null],
      [13, 'invalid_custom_id', 'custom_id'],
      [14, 'invalid_custom_id', 'custom_id'],
      [15, 'invalid_custom_id', 'custom_id'],
      [16, 'line_too_long', null],
      [17, 'invalid_json_line', null],
      [18, 'invalid_request', null],
      [19, 'model_not_found', 'body.model'],
      [20, 'invalid_request', 'body'],
      [21, 'invalid_request', 'body.temperature'],
      [22, 'invalid_request', 'body.stream'],
    ])
    const { text } = await parley.get('/metrics')
    assert.match(text, /parley_cpu_task_seconds_count{task="read batch line"} 1\n/)
    for (const { message } of batch.errors?.data ?? []) assert.ok(message)
    assert.equal(models.completions().length, 0)
    assert.deepEqual([batch.output_file_id, batch.error_file_id], [undefined, undefined])
  })

  test('a file without lines, with too many, and with more wrong lines than are named', async (t) => {
    const { openai } = await start(t, { settings: { tiers: { user_max: { max_batch_lines: 1005 } } } })
    const problems = async (lines: readonly unknown[]) => {
      const { status, errors } = await run(t, openai, lines)
      assert.equal(status, 'failed')
      return (errors?.data ?? []).map(({ line, code }) => [line, code])
    }
    assert.deepEqual(await problems(['', '']), [[null, 'empty_file']])
    assert.deepEqual(await problems(numbered(1006)), [[null, 'too_many_lines']])
    const blank = Array.from({ length: 1006 }, () => '')
    assert.deepEqual(await problems([chatLine('a'), ...blank, '']), [[null, 'too_many_lines']])
    const wrong = await problems(Array.from({ length: 1005 }, () => '{'))
    assert.deepEqual(wrong.at(999), [1000, 'invalid_json_line'])
    assert.deepEqual(wrong.slice(1000), [[null, 'more_errors']])
  })

  test('a wrong field is named as in its line, for responses, too', async (t) => {
    const { openai } = await start(t)
    const format = { type: 'json_schema', name: 'a', schema: { type: 'none' } }
    const bodies = [{ input: [] }, { input: 'Hello', text: { format } }]
    const lines = bodies.map((body, at) => ({
      ...{ custom_id: `${at}`, method: 'POST', url: '/v1/responses' },
      body: { model: 'gpt-5-mini', ...body },
    }))
    const { errors } = await run(t, openai, lines, { endpoint: '/v1/responses' })
    assert.deepEqual(
      errors?.data?.map(({ param, message }) => [param, message?.split(':', 1)[0]]),
      [
        ['body.input', 'input'],
        ['body.text.format.schema.type', 'text.format.schema.type'],
      ],
    )
  })

  test('what is wrong with lines is told briefly, however long their names and paths are', async (t) => {
    const { openai } = await start(t)
    const textOf = async (lines: readonly unknown[]) => {
      const { errors } = await run(t, openai, lines)
      return { text: JSON.stringify(errors?.data), last: errors?.data?.at(-1) }
    }
    const name = 'x'.repeat(1_000_000)
    const { text: ofNames } = await textOf([chatLine('a', 'Hello', { [name]: 1 })])
    assert.ok(ofNames.length < 1000, `${ofNames.length} characters`)
    let schema: object = { type: 'none' }
    for (let depth = 0; depth < 20; depth++) schema = { properties: { ['p'.repeat(80)]: schema } }
    const format = { type: 'json_schema', json_schema: { name: 'a', schema } }
    const lines = numbered(500, '', { response_format: format })
    const { text: ofPaths, last } = await textOf(lines)
    assert.ok(ofPaths.length < 400_000, `${ofPaths.length} characters`)
    assert.match(last?.message ?? '', /^\d+ further lines are wrong/)
  })

  test('a batch of long lines is validated and started in several steps, between which other batches run', async (t) => {
    const clock = new FakeClock()
    const { parley, openai } = await start(t, { clock, settings: { tiers: UNLIMITED_READS } })
    const lines = numbered(20, 'x'.repeat(250_000))
    const { store } = parley
    readSlowly(t, store, clock, 100)
    const { mock: owners } = t.mock.method(store, 'findOwner')
    const { mock: steps } = t.mock.method(store, 'advanceBatch')
    const created = await submit(openai, lines)
    for (let status: string = created.status; status !== 'completed'; clock.advance(20)) {
      status = (await openai.batches.retrieve(created.id)).status
    }
    assert.ok(owners.callCount() >= 10, `${owners.callCount()} steps`)
    const started = steps.calls.map(({ arguments: [{ started }] }) => started.length)
    assert.ok(Math.max(...started) < lines.length, `${started}`)
  })

  test('results that are large together are stored in several steps', async (t) => {
    const { parley, openai, models } = await start(t)
    models.script = () => reply.stall(reply.text('Hi.'))
    const lines = Array.from({ length: 12 }, (_, at) => ({
      ...{ custom_id: `${at}`, method: 'POST', url: '/v1/responses' },
      body: { model: 'gpt-5-mini', input: 'Hello', instructions: 'x'.repeat(500_000) },
    }))
    const created = await submit(openai, lines, { endpoint: '/v1/responses' })
    await models.received(lines.length)
    const { mock: steps } = t.mock.method(parley.store, 'advanceBatch')
    models.release()
    assert.deepEqual((await ended(t, openai, created)).request_counts?.completed, lines.length)
    const bytes = steps.calls.map(({ arguments: [{ output }] }) => output?.content.length ?? 0)
    assert.ok(Math.max(...bytes) < 5_000_000, `${bytes}`)
  })

  test('a line that fails goes to the error file', async (t) => {
    const { openai, models } = await start(t)
    models.script = ({ body }) => (JSON.stringify(body).includes('bad') ? reply.status(400) : undefined)
    const batch = await run(t, openai, [chatLine('good'), chatLine('bad')])
    assert.equal(batch.status, 'completed')
    assert.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 })
    const [error] = await linesOf(openai, batch.error_file_id)
    assert.deepEqual([error?.custom_id, error?.response?.status_code], ['bad', 502])
  })

  test('cancelling ends the lines that run, and keeps the answers that are there', async (t) => {
    const { openai, models } = await start(t)
    models.script = ({ body }) => (JSON.stringify(body).includes('slow') ? reply.stall() : undefined)
    const created = await submit(openai, [chatLine('quick'), chatLine('slow'), chatLine('slow too')])
    await once(t, openai, created, ({ request_counts }) => request_counts?.completed === 1)
    await models.received(3)
    const cancelling = await openai.batches.cancel(created.id)
    assert.equal(cancelling.status, 'cancelling')
    const batch = await ended(t, openai, created)
    assert.equal(batch.status, 'cancelled')
    assert.deepEqual(batch.request_counts, { total: 3, completed: 1, failed: 2 })
    const errors = await linesOf(openai, batch.error_file_id)
    assert.deepEqual(codesOf(errors), { slow: 'batch_cancelled', 'slow too': 'batch_cancelled' })
    assert.deepEqual(
      (await linesOf(openai, batch.output_file_id)).map(({ custom_id }) => custom_id),
      ['quick'],
    )
    assert.equal((await openai.batches.cancel(created.id)).status, 'cancelled')
  })

  test('many lines are cancelled in several steps, between which other batches run', async (t) => {
    const { parley, openai, models } = await start(t)
    models.script = () => reply.stall()
    const created = await submit(openai, numbered(60))
    await models.received(60)
    const { mock: cancels } = t.mock.method(parley.store, 'cancelOwnJob')
    const { mock: steps } = t.mock.method(parley.store, 'advanceBatch')
    await openai.batches.cancel(created.id)
    const { request_counts } = await ended(t, openai, created)
    assert.deepEqual([request_counts?.failed, cancels.callCount()], [60, 60])
    assert.ok(steps.callCount() >= 3, `${steps.callCount()} steps`)
  })

  test('a line whose job is cancelled is an error of the batch, and the others run on', async (t) => {
    const { openai, models, parley, key } = await start(t)
    models.script = () => reply.stall()
    const created = await submit(openai, [chatLine('one'), chatLine('other')])
    await models.received(2)
    const { jobs } = granted(await parley.get('/api/v1/messages?status=assigned', key), 200)
    assert.equal(jobs.length, 2)
    granted(await parley.post(`/api/v1/messages/${jobs[0].job_id}/cancel`, undefined, key), 200)
    models.release()
    const batch = await ended(t, openai, created)
    assert.deepEqual(
      [batch.status, batch.request_counts],
      ['completed', { total: 2, completed: 1, failed: 1 }],
    )
    const codes = codesOf(await linesOf(openai, batch.error_file_id))
    assert.deepEqual(Object.values(codes), ['job_cancelled'])
    const [answered] = await linesOf(openai, batch.output_file_id)
    assert.deepEqual([answered?.custom_id, ...Object.keys(codes)].sort(), ['one', 'other'])
  })

  test('what has not run within its time is an error, with the answers that are there', async (t) => {
    const clock = new FakeClock()
    const { openai, models } = await start(t, { clock, settings: { tiers: UNLIMITED_READS, ...UNHURRIED } })
    models.script = ({ body }) => (JSON.stringify(body).includes('slow') ? reply.stall() : undefined)
    const created = await submit(openai, [chatLine('quick'), chatLine('slow')])
    let batch = created
    const passUntil = async (isThere: (batch: Batch) => boolean, stepMs: number) => {
      while (!isThere(batch)) {
        clock.advance(stepMs)
        batch = await openai.batches.retrieve(created.id)
      }
    }
    await passUntil(({ request_counts }) => request_counts?.completed === 1, 200)
    clock.advance(A_DAY_MS)
    await passUntil(({ status }) => status === 'expired', 1000)
    assert.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 })
    assert.deepEqual(codesOf(await linesOf(openai, batch.error_file_id)), { slow: 'batch_expired' })
    assert.equal((await linesOf(openai, batch.output_file_id))[0]?.custom_id, 'quick')
  })

  test('a cap reached in the middle makes lines wait, and the batch says so', async (t) => {
    const stage = await start(t)
    const { openai } = stage
    await setCaps(stage, 3)
    const created = await submit(openai, numbered(5))
    const waiting = await once(t, openai, created, ({ errors }) => (errors?.data?.length ?? 0) > 0)
    assert.equal(waiting.status, 'in_progress')
    assert.match(waiting.errors?.data?.[0]?.message ?? '', /monthly|month/)
    await setCaps(stage, 'none')
    const batch = await ended(t, openai, created)
    assert.deepEqual(
      [batch.status, batch.request_counts?.completed, batch.errors],
      ['completed', 5, undefined],
    )
  })

  async function submitWaiting(t: TestContext, { openai, parley, key, account }: SharedStage, large: number) {
    const capStoredBytes = async (max_stored_bytes: number | 'none') => {
      const caps = { max_monthly_jobs: 'none', max_monthly_tokens: 'none', max_stored_bytes }
      granted(await parley.post(`/admin/api/accounts/${account}/caps`, caps, undefined, ADMIN), 200)
    }
    await capStoredBytes(200_000 * large + 100_000)
    const lines = Array.from({ length: large }, (_, at) => chatLine(`large ${at}`, 'x'.repeat(200_000)))
    const created = await submit(openai, [...lines, chatLine('small')])
    const done = await eventually(
      async () => granted(await parley.get('/api/v1/messages?status=completed', key), 200).jobs,
      (jobs) => jobs.length > 0,
      { signal: t.signal },
    )
    const { errors } = await eventually(
      () => openai.batches.retrieve(created.id),
      ({ errors }) => (errors?.data?.length ?? 0) > 0,
      { signal: t.signal },
    )
    assert.match(errors?.data?.[0]?.message ?? '', /bytes/)
    return { created, done, capStoredBytes }
  }

  test('a line whose job is deleted while an earlier line waits does not run again', async (t) => {
    const stage = await start(t)
    const { openai, models, parley, key } = stage
    const { created, done, capStoredBytes } = await submitWaiting(t, stage, 1)
    granted(
      await parley.request(`/api/v1/messages/${done[0].job_id}`, {
        method: 'DELETE',
        headers: { 'x-api-key': key },
      }),
      200,
    )
    await capStoredBytes('none')
    const batch = await ended(t, openai, created)
    assert.equal(models.requests.length, 2)
    assert.deepEqual(codesOf(await linesOf(openai, batch.error_file_id)), { small: 'job_deleted' })
    assert.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 })
  })

  test('the answer to a line is there if the input file is deleted while an earlier line waits', async (t) => {
    const stage = await start(t)
    const { openai, models } = stage
    // The first line is in another piece of the file than the last one, so that piece is read again.
    const { created } = await submitWaiting(t, stage, 2)
    await openai.files.delete(created.input_file_id)
    const batch = await ended(t, openai, created)
    assert.deepEqual([batch.status, models.requests.length], ['failed', 1])
    assert.deepEqual(batch.request_counts, { total: 3, completed: 1, failed: 0 })
    const lines = await linesOf(openai, batch.output_file_id)
    assert.deepEqual(
      lines.map(({ custom_id }) => custom_id),
      ['small'],
    )
  })

  test('a batch whose input file is deleted before all of it was read fails, with the answers that are there', async (t) => {
    const { openai, models } = await start(t)
    models.script = () => reply.stall()
    // These are more lines than run at a time, and several pieces of a file.
    const lines = numbered(RUNNING + 500, 'x'.repeat(1000))
    const created = await submit(openai, lines)
    await models.received(1)
    await once(t, openai, created, ({ status }) => status === 'in_progress')
    await openai.files.delete(created.input_file_id)
    models.script = () => undefined
    models.release()
    const batch = await ended(t, openai, created)
    assert.equal(batch.status, 'failed')
    assert.deepEqual(
      batch.errors?.data?.map(({ code }) => code),
      ['input_file_deleted'],
    )
    const { completed = 0 } = batch.request_counts ?? {}
    assert.ok(completed > 0 && completed < lines.length, `${completed}`)
    assert.equal((await linesOf(openai, batch.output_file_id)).length, completed)
  })

  test('an account whose many batches do not end delays no batch of another', async (t) => {
    const { parley, models, openai } = await start(t, {})
    models.script = ({ body }) => (JSON.stringify(body).includes('slow') ? reply.stall() : undefined)
    const { input_file_id } = await submit(openai, [chatLine('slow')])
    const batch = { input_file_id, endpoint: CHAT, completion_window: '24h' } as const
    await Promise.all(Array.from({ length: 99 }, () => openai.batches.create(batch)))
    await models.received(100)
    const other = openaiOf(parley, await parley.key('user_max', 'other'))
    assert.equal((await run(t, other, [chatLine('quick')])).status, 'completed')
  })

  test('several batches of an account, each with much to do, take turns with those of another as one', async (t) => {
    const clock = new FakeClock()
    const { parley, openai } = await start(t, { clock, settings: { tiers: UNLIMITED_READS } })
    const { store } = parley
    readSlowly(t, store, clock, 300)
    const { mock: owners } = t.mock.method(store, 'findOwner')
    const lines = numbered(8, 'x'.repeat(250_000))
    for (let batch = 0; batch < 5; batch++) await submit(openai, lines)
    const other = openaiOf(parley, await parley.key('user_go', 'other'))
    const { id } = await submit(other, [chatLine('short')])
    for (let status: string = 'validating'; status !== 'completed'; clock.advance(20)) {
      status = (await other.batches.retrieve(id)).status
    }
    const steps = owners.calls.map(({ arguments: [account] }) => account)
    const first = steps.indexOf('other')
    const between = steps.indexOf('other', first + 1) - first - 1
    assert.ok(between <= 2, `${steps}`)
  })

  test('a batch may have more lines than one native batch request may have jobs', async (t) => {
    const { openai } = await start(t, { settings: { tiers: { user_max: { max_batch_jobs: 1 } } } })
    const batch = await run(t, openai, numbered(3))
    assert.deepEqual([batch.status, batch.request_counts?.completed], ['completed', 3])
  })

  test('results count in the stored bytes of the account, until they are deleted', async (t) => {
    const { openai, parley, account } = await start(t)
    const batch = await run(t, openai, [chatLine('a')])
    const { bytes } = await openai.files.retrieve(batch.output_file_id ?? '')
    const { storedBytes: before } = await parley.store.quotaUse(account)
    await openai.files.delete(batch.output_file_id ?? '')
    assert.equal((await parley.store.quotaUse(account)).storedBytes, before - bytes)
  })

  test('a retry of a request gets the batch that the request has created', async (t) => {
    const { openai } = await start(t)
    const first = await submit(openai, [chatLine('a')])
    const wanted = { input_file_id: first.input_file_id, endpoint: CHAT, completion_window: '24h' } as const
    const create = (retryCount: number, over: object = {}) => {
      const headers = { 'x-stainless-retry-count': `${retryCount}` }
      return openai.batches.create({ ...wanted, ...over }, { headers })
    }
    assert.equal((await create(1)).id, first.id)
    const others = [await create(1, { metadata: { team: 'b' } }), await create(0)]
    assert.equal(new Set([first.id, ...others.map(({ id }) => id)]).size, 3)
    assert.equal((await create(2)).id, others[1]?.id)
  })

  test('a batch beyond the number of open ones is 429 insufficient_quota, which clients do not retry', async (t) => {
    const { openai, parley } = await start(t)
    const { input_file_id } = await run(t, openai, [chatLine('a')])
    t.mock.method(parley.store, 'createBatch', async () => null)
    const create = openai.batches.create({ input_file_id, endpoint: CHAT, completion_window: '24h' })
    await assert.rejects(create, ({ status, code, headers }) => {
      assert.deepEqual([status, code, headers.get('x-should-retry')], [429, 'insufficient_quota', 'false'])
      return true
    })
  })

  test('while a node of an earlier version is alive, batches are refused', async (t) => {
    const { openai, parley } = await start(t, {})
    if (!isPostgres(parley.database)) return t.skip('a file has one node')
    const database = await connectPostgres(t, parley.database)
    await database.query(
      "insert into nodes (node, lease_until) values ('earlier', clock_timestamp() + interval '1 hour')",
    )
    const file = await openai.files.create({ file: await toFile(Buffer.from('{}'), 'in'), purpose: 'batch' })
    // The client would wait as long as Retry-After says.
    const options = { maxRetries: 0 }
    const create = () =>
      openai.batches
        .create({ input_file_id: file.id, endpoint: CHAT, completion_window: '24h' }, options)
        .catch((error) => error)
    const refused = await eventually(create, (answer) => answer instanceof Error, { signal: t.signal })
    assert.equal(refused.status, 503)
    assert.match(refused.message, /earlier version/)
  })

  test('batches are listed page by page, newest first', async (t) => {
    const { openai, parley } = await start(t)
    const ids: string[] = []
    for (const name of ['a', 'b', 'c']) ids.unshift((await submit(openai, [chatLine(name)])).id)
    const listed: string[] = []
    for await (const { id } of openai.batches.list({ limit: 2 })) listed.push(id)
    assert.deepEqual(listed, ids)
    await assert.rejects(openai.batches.retrieve('batch_x'), { status: 404 })
    for (const id of ids) await ended(t, openai, { id } as Batch)
    // Batches with many problems are large, so other work runs between them.
    assert.equal(await turnsOfList(t, parley, () => openai.batches.list()), 3)
  })
})
