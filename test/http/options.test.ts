/**
 * Tests `options` and `metadata` of a job: how options reach the model server, where callers and operators see metadata, how
 * both affect the cache, and which values are rejected.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { Parley } from '../../client/src/index.ts'
import { type Received, reply } from '../model-server.ts'
import { onEachStore, storeName } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { eventually } from '../support/eventually.ts'
import { adminOf } from './admin/admin.ts'
import { callerOf, idOf, idsOf, LOCAL_CALLBACKS, MESSAGES, shareStage, startScene } from './caller.ts'
import { completed, failed, granted, invalid, refused } from './expect.ts'

const ALL = {
  temperature: 0.2,
  top_p: 0.9,
  max_tokens: 50,
  stop: ['END', 'a "}" b'],
  seed: 7,
  presence_penalty: -0.5,
  frequency_penalty: 2,
  reasoning_effort: 'low',
  verbosity: 'high',
}
const sentFields = ({ body }: Received) => {
  const { model: _, messages: __, response_format: ___, ...fields } = body
  return fields
}

const PAIRS = { customer: 'a "}" b', Ünïcode: '\u0000🙂', empty: '' }
/** A node of an earlier version would ignore these fields. */
const NEWER = { options: { seed: 1 }, complete_within: 60, priority: 'low', metadata: { n: '1' } }
const INCLUDING = `${MESSAGES}?include=metadata`

onEachStore(() => {
  const begin = shareStage()

  test('all options are sent, also with a repair and for queued jobs, and without options nothing is', async (t) => {
    const { caller, models } = await begin(t, (_request, index) => reply.text(index === 0 ? '{}' : '{"a":1}'))
    const format = { format: 'json', schema: { type: 'object', required: ['a'] } }
    completed(await caller.create({ response_format: format, options: ALL }))
    assert.deepEqual(models.requests.map(sentFields), [ALL, ALL])
    models.script = () => undefined
    completed(await caller.ended(await caller.enqueueOne({ options: { seed: 1 } })))
    completed(await caller.create({ options: {} }))
    assert.deepEqual(models.requests.slice(2).map(sentFields), [{ seed: 1 }, {}])
  })

  test("a caller's option replaces the same field of the upstream's body", async (t) => {
    const chat_template_kwargs = { enable_thinking: false }
    const body = { temperature: 1, max_completion_tokens: 9, chat_template_kwargs }
    const { caller, models } = await startScene(t, { settings: { upstreams: { openai: { body } } } })
    completed(await caller.create({ options: { temperature: 0, max_tokens: 3 } }))
    completed(await caller.create())
    assert.deepEqual(models.requests.map(sentFields), [
      { temperature: 0, max_tokens: 3, chat_template_kwargs },
      body,
    ])
  })

  test('a server that wants max_completion_tokens gets it, at once from the second job on', async (t) => {
    const message =
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    const { caller, models } = await startScene(t, {
      script: ({ body }) =>
        'max_tokens' in body ? reply.status(400, { body: { error: { message } } }) : undefined,
    })
    for (const content of ['a', 'b']) completed(await caller.ask(content, { options: { max_tokens: 5 } }))
    const renamed = { max_completion_tokens: 5 }
    assert.deepEqual(models.requests.map(sentFields), [{ max_tokens: 5 }, renamed, renamed])
  })

  test('a job whose option the server rejects fails with its name', async (t) => {
    const message = "'temperature' does not support 0.2 with this model."
    const { caller, models } = await startScene(t, {
      script: () => reply.status(400, { body: { error: { message } } }),
    })
    const error = failed(await caller.create({ options: ALL }))
    assert.equal(error.code, 'model_error')
    assert.equal(error.message, 'The model server rejected options.temperature of the job.')
    assert.equal(error.upstream_message, message)
    assert.equal(models.completions().length, 1)
  })

  test('max_output_tokens of a tier limits every job, and is used where a job does not say', async (t) => {
    const { parley, caller, models } = await startScene(t, {
      settings: { tiers: { user_free: { max_output_tokens: 100, reads_per_minute: 1000 } } },
      tier: 'user_free',
    })
    const model = 'gpt-auto'
    refused(await caller.create({ model, options: { max_tokens: 101 } }), 403, {
      message: /tier user_free allows 100 tokens/,
      details: /^options\.max_tokens: must be at most 100/,
    })
    completed(await caller.create({ model }))
    completed(await caller.create({ model, options: { max_tokens: 7, seed: 3 } }))
    completed(await (await callerOf(parley)).create({ model }))
    assert.deepEqual(models.requests.map(sentFields), [{ max_tokens: 100 }, { max_tokens: 7, seed: 3 }, {}])
    assert.equal((await caller.me()).limits.max_output_tokens, 100)
  })

  test('operators see the options and the metadata of a job beside its response_format', async (t) => {
    const { parley, caller } = await begin(t)
    const id = idOf(await caller.create({ options: ALL, metadata: PAIRS }))
    const data = granted(await (await adminOf(parley)).get(`/jobs/${id}/content`), 200)
    assert.deepEqual([data.response_format, data.options, data.metadata], [{ format: 'text' }, ALL, PAIRS])
  })

  test('metadata comes back in creates, reads, waits and lists that ask for it, and only there', async (t) => {
    const { caller } = await begin(t)
    const get = async (query: string) => granted(await caller.get(`${MESSAGES}${query}`), 200)
    const create = async (over: object) => granted(await caller.post(INCLUDING, job({ ...over })), 200)
    const single = await create({ metadata: PAIRS, options: { seed: 1, stop: '}"' } })
    assert.deepEqual(single.metadata, PAIRS)
    assert.deepEqual((await create({ metadata: {} })).metadata, {})
    const elements = [job({ metadata: { n: '1' } }), job({ metadata: { n: '2' } }), job()]
    const ids = await caller.enqueue(elements)
    const { jobs } = await get(`?ids=${ids.join(',')}&wait=30&include=usage,metadata`)
    assert.deepEqual(
      jobs.map(({ metadata }: { metadata: object }) => metadata),
      [{ n: '1' }, { n: '2' }, {}],
    )
    assert.ok(jobs[0].usage)
    assert.deepEqual((await get(`/${ids[1]}?wait=30&include=metadata`)).metadata, { n: '2' })
    const listed = (await get('?include=metadata')).jobs
    const metadataOf = (id: string | undefined) =>
      listed.find(({ job_id }: { job_id: string }) => job_id === id).metadata
    assert.deepEqual([metadataOf(single.job_id), metadataOf(ids[2])], [PAIRS, {}])
    const without = [await get(`/${ids[0]}`), await get(`/${ids[0]}?include=usage`), (await get('')).jobs[0]]
    for (const one of without) assert.equal('metadata' in one, false)
  })

  test('a callback carries it if it asks, alone or with the usage', async (t) => {
    const receiver = await startReceiver({}, t)
    const { caller } = await startScene(t, { settings: LOCAL_CALLBACKS })
    const element = (include: string[] | undefined, metadata?: object) =>
      job({ metadata, callback: { callback_url: receiver.url, include } })
    const ids = await caller.enqueue([
      element(['metadata'], PAIRS),
      element(['usage', 'metadata'], { n: '2' }),
      element(['metadata']),
      element(['usage'], PAIRS),
      element(undefined, PAIRS),
    ])
    const posts = (await receiver.received(ids.length)).map(({ body }) => JSON.parse(body))
    const bodies = ids.map((id) => posts.find((body) => body.job_id === id))
    assert.deepEqual(
      bodies.map((body) => [body.metadata, 'usage' in body]),
      [
        [PAIRS, false],
        [{ n: '2' }, true],
        [{}, false],
        [undefined, true],
        [undefined, false],
      ],
    )
    const read = granted(await caller.read(ids[1], '?include=usage,metadata'), 200)
    assert.deepEqual(bodies[1], { ...read, callback_payload: {} })
  })

  test('models do not see metadata', async (t) => {
    const { caller, models } = await begin(t)
    completed(await caller.create({ metadata: PAIRS }))
    assert.ok(!models.requests[0]?.text.includes('customer'))
  })

  test('up to 16 keys of 64 characters with values of 512 are accepted, and nothing else', async (t) => {
    const { caller } = await begin(t)
    const pairs = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, '']))
    completed(await caller.create({ metadata: { ...pairs(15), ['k'.repeat(64)]: 'v'.repeat(512) } }))
    for (const wrong of [pairs(17), { ['k'.repeat(65)]: '' }, { k: 'v'.repeat(513) }, { k: 1 }, [], 'k']) {
      invalid(await caller.create({ metadata: wrong }), /metadata/)
    }
    invalid(await caller.create({ metadata: { 'a~b/c': 1 } }), /^metadata\.a~b\/c: /)
  })

  test('lists and searches show the jobs with all of the given pairs', async (t) => {
    const { parley, caller } = await startScene(t)
    const admin = await adminOf(parley)
    const create = async (metadata: object | undefined, over: object = {}) =>
      idOf(await caller.create({ metadata, ...over }))
    const acme = await create({ customer: 'acme', team: 'a' })
    const both = await create({ team: 'b', customer: 'acme' }, { options: { seed: 1 } })
    const odd = await create(PAIRS)
    // The metadata of these jobs contains the text of the searched pair, but not the pair.
    const quoted = await create({ note: '"customer":"acme"', 'a","customer': 'acme' })
    const shifted = await create({ a: 'b', ':': 'z' })
    const schema = { type: 'object', customer: 'acme', properties: { customer: { const: 'acme' } } }
    await create({ n: '1' }, { response_format: { format: 'json', schema } })
    await create(undefined)
    const pairs = (metadata: object) =>
      Object.entries(metadata)
        .map(([name, value]) => `${encodeURIComponent(`metadata[${name}]`)}=${encodeURIComponent(value)}`)
        .join('&')
    for (const [metadata, more, expected] of [
      [{ customer: 'acme' }, '', [both, acme]],
      [{ customer: 'acme', team: 'a' }, '', [acme]],
      [{ customer: 'acme', team: 'c' }, '', []],
      [{ customer: 'acme' }, '&limit=1', [both]],
      [{ customer: 'acme' }, '&status=failed', []],
      [PAIRS, '', [odd]],
      [{ 'a","customer': 'acme' }, '', [quoted]],
      [{ ',': ':' }, '', []],
      [{ ':': 'z' }, '', [shifted]],
      [{ __proto__: 'x', toString: 'x' }, '', []],
    ] as const) {
      const query = `${pairs(metadata)}${more}`
      const own = granted(await caller.get(`${MESSAGES}?${query}`), 200)
      const all = granted(await admin.get(`/jobs?${query}`), 200)
      assert.deepEqual([idsOf(own), idsOf(all)], [expected, expected], query)
    }
    const unescaped = granted(await caller.get(`${MESSAGES}?metadata[team]=b`), 200)
    assert.deepEqual(idsOf(unescaped), [both])
    const other = await callerOf(parley, 'user_free')
    assert.deepEqual(idsOf(granted(await other.get(`${MESSAGES}?metadata[customer]=acme`), 200)), [])
    for (const [query, rule] of [
      ['metadata=acme', /^metadata: must be an object/],
      ['metadata[a]=1&metadata[a]=2', /^metadata\.a: must be a string/],
      [`metadata[a]=${'v'.repeat(513)}`, /^metadata\.a: /],
      ['status[a]=1', /^status\[a\]: is not a known field/],
      [`ids=${acme}&metadata[a]=1`, /^ids: cannot be combined with metadata/],
    ] as const) {
      invalid(await caller.get(`${MESSAGES}?${query}`), rule)
    }
    const client = new Parley({ baseUrl: parley.url, apiKey: caller.key })
    const ofClient: string[] = []
    for await (const { job_id } of client.messages.list({ metadata: { customer: 'acme' }, limit: 1 })) {
      ofClient.push(job_id)
    }
    assert.deepEqual(ofClient, [both, acme])
  })

  // Only nodes on Postgres share a database.
  if (storeName() === 'Postgres') {
    for (const [field, value] of Object.entries(NEWER)) {
      test(`while a node of an earlier version is alive, ${field} is refused, and other jobs are accepted`, async (t) => {
        const { addEarlierNode } = await import('./earlier-node.ts')
        const { parley, caller } = await begin(t)
        const untilStatus = (status: number) =>
          eventually(
            () => caller.create({ [field]: value }),
            (answer) => answer.status === status,
            { signal: t.signal },
          )
        const endNode = await addEarlierNode(t, parley)
        const mixed = await untilStatus(503)
        assert.equal(mixed.headers.get('retry-after'), '5')
        const { message, details } = refused(mixed, 503)
        assert.equal(message, 'A node of an earlier version is still running.')
        assert.ok(details?.startsWith(`${field}: that node would ignore it`))
        completed(await caller.create())
        await endNode()
        completed(await untilStatus(200))
      })
    }
  }
})
