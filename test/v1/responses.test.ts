/** Tests /v1/responses with OpenAI's own client: held and in the background, read, cancelled, deleted, and its input items. */
import assert from 'node:assert/strict'
import test from 'node:test'
import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { isPostgres } from '../../src/store/open.ts'
import { startStage, stopAtOnce } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { blockedBy, connectPostgres } from '../postgres/connection.ts'
import { eventually } from '../support/eventually.ts'
import { openaiOf } from './official-client.ts'
import { shareStage } from './shared-stage.ts'

const HELLO = { model: 'gpt-5-mini', input: 'Hello' } as const
type Created = OpenAI.Responses.ResponseCreateParamsNonStreaming

async function ended(openai: OpenAI, id: string): Promise<OpenAI.Responses.Response> {
  for (;;) {
    const response = await openai.responses.retrieve(id)
    if (response.status !== 'queued' && response.status !== 'in_progress') return response
  }
}

onEachStore(() => {
  const enter = shareStage()

  test('a held response has its output, and what it was created from', async () => {
    const { openai, models } = await enter(() => reply.text('Hi.'))
    const echoed = {
      instructions: 'Answer briefly. "€😀"',
      metadata: { order: '7' },
      temperature: 0.5,
      top_p: 0.9,
      max_output_tokens: 50,
    }
    // The Agents SDK sends these fields by default.
    const more: Partial<Created> = { reasoning: { effort: 'low' }, text: { verbosity: 'low' }, store: true }
    const response = await openai.responses.create({ ...HELLO, ...echoed, ...more })
    assert.match(response.id, /^resp_/)
    assert.equal(response.output_text, 'Hi.')
    assert.deepEqual([response.status, response.background], ['completed', false])
    assert.partialDeepStrictEqual(response, echoed)
    assert.deepEqual([response.reasoning?.effort, response.text?.verbosity], ['low', 'low'])
    const { input_tokens, output_tokens, total_tokens } = response.usage ?? assert.fail('no usage')
    assert.ok(input_tokens > 0 && total_tokens === input_tokens + output_tokens)
    const [sent] = models.requests
    assert.deepEqual(sent?.body.messages, [
      { role: 'system', content: 'Answer briefly. "€😀"' },
      { role: 'user', content: 'Hello' },
    ])
    const { temperature, reasoning_effort, verbosity } = sent?.body ?? {}
    assert.deepEqual([temperature, reasoning_effort, verbosity], [0.5, 'low', 'low'])
    const { _request_id: _, ...body } = response
    const { _request_id: __, ...again } = await openai.responses.retrieve(response.id)
    assert.deepEqual(again, body)
  })

  test('a background response is queued, runs, and is completed, also after a restart', async (t) => {
    const stage = await startStage(t, { script: () => reply.stall(reply.text('Done.')) })
    const key = await stage.parley.key()
    const openai = openaiOf(stage.parley, key)
    const created = await openai.responses.create({ ...HELLO, background: true, store: false })
    assert.equal(created.status, 'queued')
    assert.equal(created.output_text, '')
    assert.equal(created.background, true)
    await stage.models.received(1)
    const running = await openai.responses.retrieve(created.id)
    assert.deepEqual([running.status, running.usage, running.output], ['in_progress', undefined, []])
    await stopAtOnce(stage)
    const after = await startStage(t, { after: stage })
    stage.models.script = () => reply.text('Done.')
    stage.models.release()
    const response = await ended(openaiOf(after.parley, key), created.id)
    assert.equal(response.status, 'completed')
    assert.equal(response.output_text, 'Done.')
    assert.equal(response.created_at, created.created_at)
  })

  test('parse() returns the object that a Zod schema describes, now and when it is read later', async () => {
    const { openai, models } = await enter(() => reply.json({ name: 'Ada', born: 1815 }))
    const person = z.object({ name: z.string(), born: z.number() })
    const text = { format: zodTextFormat(person, 'person') }
    const response = await openai.responses.parse({ ...HELLO, text })
    assert.deepEqual(response.output_parsed, { name: 'Ada', born: 1815 })
    assert.equal(models.requests[0]?.body.response_format?.type, 'json_schema')
    const { text: stored } = await openai.responses.retrieve(response.id)
    const { type, name, strict, schema } = text.format
    assert.deepEqual(stored, { format: { type, name, strict, schema } })
    const object = await openai.responses.create({ ...HELLO, text: { format: { type: 'json_object' } } })
    assert.deepEqual(JSON.parse(object.output_text), { name: 'Ada', born: 1815 })
    assert.deepEqual(object.text, { format: { type: 'json_object' } })
  })

  test('an answer that was cut or withheld is incomplete', async () => {
    const { openai, models } = await enter()
    models.script = () => reply.truncated('{"name": "Ad')
    for (const type of ['text', 'json_object'] as const) {
      const cut = await openai.responses.create({ ...HELLO, text: { format: { type } } })
      assert.deepEqual([cut.status, cut.output_text], ['incomplete', '{"name": "Ad'])
      assert.deepEqual(cut.incomplete_details, { reason: 'max_output_tokens' })
      assert.equal((await openai.responses.retrieve(cut.id)).status, 'incomplete')
    }
    models.script = () => reply.contentFilter()
    const withheld = await openai.responses.create(HELLO)
    assert.deepEqual([withheld.status, withheld.output], ['incomplete', []])
    assert.deepEqual(withheld.incomplete_details, { reason: 'content_filter' })
  })

  test('a failed response: an error if it was held, its state if it ran in the background', async () => {
    const { openai, models } = await enter(() => reply.status(400))
    await assert.rejects(openai.responses.create(HELLO), { status: 502, code: 'model_error' })
    assert.equal(models.requests.length, 1, 'it was not retried')
    const { id } = await openai.responses.create({ ...HELLO, background: true })
    const failed = await ended(openai, id)
    assert.equal(failed.status, 'failed')
    assert.equal(failed.error?.code, 'server_error')
    assert.match(failed.error?.message ?? '', /It answers 400/)
  })

  test('cancelling ends it, and changes nothing the second time or once it has ended', async () => {
    const { openai, models } = await enter(() => reply.stall())
    const { id } = await openai.responses.create({ ...HELLO, background: true })
    await models.received(1)
    const cancelled = await openai.responses.cancel(id)
    assert.deepEqual([cancelled.status, cancelled.error, cancelled.output], ['cancelled', null, []])
    assert.equal((await openai.responses.cancel(id)).status, 'cancelled')
    models.script = () => reply.text('Hi.')
    const completed = await openai.responses.create(HELLO)
    assert.equal((await openai.responses.cancel(completed.id)).status, 'completed')
  })

  test('a deleted response is gone, whether it had ended or not', async () => {
    const { openai, models } = await enter(() => reply.text('Hi.'))
    const { id } = await openai.responses.create(HELLO)
    await openai.responses.delete(id)
    await assert.rejects(openai.responses.retrieve(id), OpenAI.NotFoundError)
    await assert.rejects(openai.responses.delete(id), OpenAI.NotFoundError)
    models.script = () => reply.stall()
    const running = await openai.responses.create({ ...HELLO, background: true })
    const answer = (await openai.responses.delete(running.id)) as unknown
    assert.deepEqual(answer, { id: running.id, object: 'response', deleted: true })
    await assert.rejects(openai.responses.retrieve(running.id), OpenAI.NotFoundError)
  })

  test('jobs of other routes do not exist as responses', async () => {
    const { openai } = await enter(() => reply.text('Hi.'))
    const { id } = await openai.responses.create(HELLO)
    const messages = [{ role: 'user' as const, content: 'Hello' }]
    const completion = await openai.chat.completions.create({ model: 'gpt-5-mini', messages })
    const chatId = completion.id.replace('chatcmpl-', 'resp_')
    const { responses } = openai
    for (const missing of [chatId, 'resp_x', id.slice('resp_'.length)]) {
      const routes = [
        () => responses.retrieve(missing),
        () => responses.cancel(missing),
        () => responses.delete(missing),
        () => responses.inputItems.list(missing),
      ]
      for (const ask of routes) await assert.rejects(async () => ask(), { status: 404, param: 'id' })
    }
    assert.equal((await responses.retrieve(id)).status, 'completed')
  })

  test('input items are listed page by page, in both orders, without the instructions', async () => {
    const { openai } = await enter(() => reply.text('Hi.'))
    const input: OpenAI.Responses.ResponseInput = [
      { role: 'developer', content: 'one' },
      { role: 'user', content: [{ type: 'input_text', text: 'two' }] },
      {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'three', annotations: [] }],
      },
      { type: 'message', role: 'user', content: 'four' },
    ]
    const { id } = await openai.responses.create({ ...HELLO, input, instructions: 'Be brief.' })
    const texts = async (query: OpenAI.Responses.InputItemListParams) => {
      const found: string[] = []
      for await (const item of openai.responses.inputItems.list(id, query)) {
        assert.ok(item.type === 'message' && item.id)
        const [part] = item.content
        assert.ok(part?.type === (item.role === 'assistant' ? 'output_text' : 'input_text'))
        found.push(part.text)
      }
      return found
    }
    const inOrder = ['one', 'two', 'three', 'four']
    assert.deepEqual(await texts({ order: 'asc', limit: 1 }), inOrder)
    assert.deepEqual(await texts({ order: 'asc', limit: 3 }), inOrder)
    assert.deepEqual(await texts({}), inOrder.toReversed())
    const page = await openai.responses.inputItems.list(id, { limit: 4 })
    assert.equal(page.has_more, false)
    await assert.rejects(texts({ limit: 101 }), { status: 400, param: 'limit' })
    await assert.rejects(texts({ after: 'msg_x' }), { status: 400, param: 'after' })
  })

  test('while a node of an earlier version is alive, no response is created', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.text('Hi.') })
    if (!isPostgres(parley.database)) return
    const openai = openaiOf(parley, await parley.key(), { maxRetries: 0 })
    const database = await connectPostgres(t, parley.database)
    await database.query(
      `insert into nodes (node, lease_until) values ('earlier', clock_timestamp() + interval '60 s')`,
    )
    const create = () => openai.responses.create(HELLO).catch((refused: unknown) => refused)
    const error = await eventually(create, (answer) => answer instanceof Error, { signal: t.signal })
    assert.ok(error instanceof OpenAI.InternalServerError)
    assert.deepEqual([error.status, error.headers?.get('x-should-retry')], [503, 'true'])
    assert.match(error.message, /earlier version/)
  })

  test('a background create whose answer was lost is joined by its retry, and by no other create', async (t) => {
    const { parley } = await startStage(t, { script: () => reply.stall() })
    if (!isPostgres(parley.database)) return
    const key = await parley.key()
    const openai = openaiOf(parley, key)
    const body = { ...HELLO, background: true }
    const database = await connectPostgres(t, parley.database)
    const hangUp = new AbortController()
    await database.query('begin')
    await database.query('lock table jobs in share row exclusive mode')
    const lost = openai.responses.create(body, { signal: hangUp.signal })
    const failed = assert.rejects(lost, OpenAI.APIUserAbortError)
    while ((await blockedBy(database)) === 0) t.signal.throwIfAborted()
    hangUp.abort()
    await failed
    // When this response arrives, the server knows that the connection is closed.
    await parley.get('/healthz')
    await database.query('commit')
    const listed = async () => (await parley.get('/api/v1/messages', key)).body.data.jobs
    while ((await listed()).length === 0) t.signal.throwIfAborted()
    const [{ job_id }] = await listed()
    const retry = { headers: { 'x-stainless-retry-count': '1' } }
    assert.equal((await openai.responses.create(body, retry)).id, `resp_${job_id}`)
    const others = [await openai.responses.create(body), await openai.responses.create(body)]
    assert.equal(new Set([...others.map(({ id }) => id), `resp_${job_id}`]).size, 3)
  })

  test('a large body of small items is read by a thread, and its first wrong field is named', async () => {
    const { openai, models } = await enter(() => reply.json({ a: 1 }))
    const input = Array.from({ length: 8000 }, (_, at) => ({ role: 'user' as const, content: `${at}` }))
    const format = { type: 'json_schema' as const, name: 'a', schema: { type: 'object' } }
    const body = { ...HELLO, input, instructions: 'Be brief.', metadata: { a: 'b' }, text: { format } }
    const response = await openai.responses.create(body)
    assert.equal(models.requests[0]?.body.messages.length, 8001)
    const again = await openai.responses.retrieve(response.id)
    for (const { instructions, metadata, text, output_text } of [response, again]) {
      assert.deepEqual(
        [instructions, metadata, text, output_text],
        ['Be brief.', { a: 'b' }, { format }, '{"a":1}'],
      )
    }
    const wrong = [...input, { role: 'tool', content: 'x' }] as unknown as OpenAI.Responses.ResponseInput
    const named = { status: 400, param: 'input[8000].role' }
    await assert.rejects(openai.responses.create({ ...HELLO, input: wrong }), named)
  })

  test('long instructions and answers are read within the byte budget', async (t) => {
    const answer = 'a'.repeat(100_000)
    const { openai, parley } = await enter(() => reply.text(answer))
    const instructions = '€😀'.repeat(40_000)
    const { id } = await openai.responses.create({ ...HELLO, instructions })
    for (const read of [openai.responses.retrieve(id), openai.responses.cancel(id)]) {
      const response = await read
      assert.equal(response.instructions, instructions)
      assert.deepEqual(response.output[0]?.type === 'message' && response.output[0].content[0], {
        type: 'output_text',
        text: answer,
        annotations: [],
        logprobs: [],
      })
    }
    const { data } = await openai.responses.inputItems.list(id)
    assert.equal(data.length, 1)
    const released = 'parley_memory_bytes{share="answers",state="held"} 0\n'
    while (!(await parley.get('/metrics')).text.includes(released)) t.signal.throwIfAborted()
  })

  test('a field that is wrong or not supported is named, and neutral values are accepted', async () => {
    const { openai } = await enter(() => reply.text('Hi.'))
    const schema = { type: 'json_schema', name: 'a', schema: { type: 7 } }
    const wrong: [string, Record<string, unknown>][] = [
      ['stream', { stream: true }],
      ['tools', { tools: [{ type: 'web_search' }] }],
      ['previous_response_id', { previous_response_id: 'resp_1' }],
      ['conversation', { conversation: 'conv_1' }],
      ['input', { input: [{ role: 'system', content: 'x' }] }],
      ['input', { input: 7 }],
      ['input[0].type', { input: [{ type: 'reasoning', id: 'r', summary: [] }] }],
      ['input[0].content[0].type', { input: [{ role: 'user', content: [{ type: 'input_image' }] }] }],
      ['text.format.type', { text: { format: { type: 'grammar' } } }],
      ['text.format.schema.type', { text: { format: schema } }],
      ['text.verbosity', { text: { verbosity: 'tiny' } }],
      ['max_output_tokens', { max_output_tokens: 0 }],
      ['reasoning.effort', { reasoning: { effort: 'tiny' } }],
      ['include', { include: ['reasoning.encrypted_content', 'message.output_text.logprobs'] }],
      ['include', { include: 'reasoning.encrypted_content' }],
      ['background', { background: 'yes' }],
      ['metadata', { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, 'v'])) }],
      ['metadata.a', { metadata: { a: 'x'.repeat(513) } }],
    ]
    for (const [param, over] of wrong) {
      const answer = openai.responses.create({ ...HELLO, ...over } as unknown as Created)
      await assert.rejects(answer, { status: 400, param, type: 'invalid_request_error' })
    }
    const neutral: Created = {
      ...HELLO,
      stream: false,
      tools: [],
      tool_choice: 'auto',
      parallel_tool_calls: false,
      include: ['reasoning.encrypted_content'],
      truncation: 'disabled',
      previous_response_id: null,
      conversation: null,
      instructions: null,
      text: { format: { type: 'text' }, verbosity: 'medium' },
      reasoning: { effort: null, summary: 'auto', generate_summary: null },
      service_tier: 'auto',
      safety_identifier: 'x',
      user: 'x',
    }
    assert.equal((await openai.responses.create(neutral)).output_text, 'Hi.')
    const stream = openai.responses.retrieve('resp_x', { stream: true })
    await assert.rejects(async () => stream, { status: 400, param: 'stream' })
  })
})
