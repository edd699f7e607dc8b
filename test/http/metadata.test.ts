/** Tests `metadata` of a job: where callers and operators see it, what it must not change, and which values are rejected. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { Parley } from '../../client/src/index.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { adminOf } from './admin/admin.ts'
import { callerOf, idOf, idsOf, LOCAL_CALLBACKS, MESSAGES, shareStage, startScene } from './caller.ts'
import { completed, granted, invalid } from './expect.ts'

const PAIRS = { customer: 'a "}" b', Ünïcode: '\u0000🙂', empty: '' }
const INCLUDING = `${MESSAGES}?include=metadata`

onEachStore(async () => {
  const begin = await shareStage()

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

  test('models do not see it, and the response cache ignores it', async (t) => {
    const { caller, models } = await begin(t)
    for (const metadata of [PAIRS, { customer: 'other' }, undefined]) {
      completed(await caller.create({ options: { seed: 1 }, metadata }))
    }
    assert.equal(models.completions().length, 1)
    assert.ok(!models.requests[0]?.text.includes('customer'))
  })

  test('a request with other metadata is another request for an Idempotency-Key', async (t) => {
    const { caller } = await begin(t)
    const create = (n: string) =>
      caller.post(INCLUDING, job({ metadata: { n } }), { 'idempotency-key': 'one' })
    const first = granted(await create('1'), 200)
    const again = granted(await create('1'), 200)
    assert.deepEqual([again.job_id, again.metadata], [first.job_id, { n: '1' }])
    invalid(await create('2'), /^Idempotency-Key: was already used/)
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
})
