/** Tests `metadata` of a job: where callers and operators see it, what it must not change, and which values are rejected. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { Parley } from '../../client/src/index.ts'
import { isPostgres } from '../../src/store/open.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { connectPostgres } from '../postgres/connection.ts'
import { startReceiver } from '../receiver.ts'
import { adminOf } from './admin/admin.ts'
import { completed, enqueued, granted, invalid, refused } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const PAIRS = { customer: 'a "}" b', Ünïcode: '\u0000🙂', empty: '' }

onEachStore(() => {
  test('metadata comes back in creates, reads, waits and lists that ask for it, and only there', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const metadataOf = async (query: string) => granted(await parley.get(`${MESSAGES}${query}`, key), 200)
    const create = async (body: Record<string, unknown>) =>
      granted(await parley.post(`${MESSAGES}?include=metadata`, job(body), key), 200)
    const single = await create({ metadata: PAIRS, options: { seed: 1, stop: '}"' } })
    assert.deepEqual(single.metadata, PAIRS)
    assert.deepEqual((await create({ metadata: {} })).metadata, {})
    const elements = [job({ metadata: { n: '1' } }), job({ metadata: { n: '2' } }), job()]
    const ids = enqueued(await parley.post(`${MESSAGES}/batches`, elements, key), 3)
    const all = await metadataOf(`?ids=${ids.join(',')}&wait=30&include=usage,metadata`)
    assert.deepEqual(
      all.jobs.map(({ metadata }: { metadata: object }) => metadata),
      [{ n: '1' }, { n: '2' }, {}],
    )
    assert.ok(all.jobs[0].usage)
    const wait = await metadataOf(`/${ids[1]}?wait=30&include=metadata`)
    assert.deepEqual(wait.metadata, { n: '2' })
    const listed = await metadataOf('?include=metadata')
    const metadataById = new Map(
      listed.jobs.map((one: { job_id: string; metadata: object }) => [one.job_id, one.metadata]),
    )
    assert.deepEqual(metadataById.get(single.job_id), PAIRS)
    assert.deepEqual(metadataById.get(ids[2]), {})
    for (const query of [`/${ids[0]}`, `/${ids[0]}?include=usage`]) {
      assert.equal('metadata' in (await metadataOf(query)), false)
    }
    assert.equal('metadata' in (await metadataOf('')).jobs[0], false)
  })

  test('a callback carries it if it asks, alone or with the usage', async (t) => {
    const receiver = await startReceiver({}, t)
    const settings = { callbacks: { allow_networks: ['127.0.0.0/8'] } }
    const { parley } = await startStage(t, { settings })
    const key = await parley.key()
    const element = (include: string[] | undefined, metadata?: object) =>
      job({ metadata, callback: { callback_url: receiver.url, include } })
    const batch = [
      element(['metadata'], PAIRS),
      element(['usage', 'metadata'], { n: '2' }),
      element(['metadata']),
      element(['usage'], PAIRS),
      element(undefined, PAIRS),
    ]
    const ids = enqueued(await parley.post(`${MESSAGES}/batches`, batch, key), batch.length)
    const posts = (await receiver.received(batch.length)).map(({ body }) => JSON.parse(body))
    const bodies = ids.map((id) => posts.find((body) => body.job_id === id))
    assert.deepEqual(
      bodies.map(({ metadata }) => metadata),
      [PAIRS, { n: '2' }, {}, undefined, undefined],
    )
    assert.deepEqual(
      bodies.map((body) => 'usage' in body),
      [false, true, false, true, false],
    )
    const read = await parley.get(`${MESSAGES}/${ids[1]}?include=usage,metadata`, key)
    assert.deepEqual(bodies[1], { ...granted(read, 200), callback_payload: {} })
  })

  test('models do not see it, and the response cache ignores it', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key()
    const ask = async (fields: object) =>
      completed(await parley.post(MESSAGES, job({ options: { seed: 1 }, ...fields }), key))
    await ask({ metadata: PAIRS })
    await ask({ metadata: { customer: 'other' } })
    await ask({})
    assert.equal(models.completions().length, 1)
    assert.ok(!JSON.stringify(models.requests[0]?.body).includes('customer'))
  })

  test('a request with other metadata is another request for an Idempotency-Key', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const headers = { 'idempotency-key': 'one' }
    const create = (n: string) =>
      parley.post(`${MESSAGES}?include=metadata`, job({ metadata: { n } }), key, headers)
    const first = granted(await create('1'), 200)
    const again = granted(await create('1'), 200)
    assert.deepEqual([again.job_id, again.metadata], [first.job_id, { n: '1' }])
    invalid(await create('2'), /^Idempotency-Key: was already used/)
  })

  test('up to 16 keys of 64 characters with values of 512 are accepted, and nothing else', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const pairs = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, '']))
    const create = (metadata: unknown) => parley.post(MESSAGES, job({ metadata }), key)
    completed(await create({ ...pairs(15), ['k'.repeat(64)]: 'v'.repeat(512) }))
    for (const wrong of [pairs(17), { ['k'.repeat(65)]: '' }, { k: 'v'.repeat(513) }, { k: 1 }, [], 'k']) {
      invalid(await create(wrong), /metadata/)
    }
    invalid(await create({ 'a~b/c': 1 }), /^metadata\.a~b\/c: /)
  })

  test('lists and searches show the jobs with all of the given pairs', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const admin = await adminOf(parley)
    const create = async (metadata: object | undefined, over: object = {}) =>
      granted(await parley.post(MESSAGES, job({ metadata, ...over }), key), 200).job_id
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
    const idsOf = ({ jobs }: { jobs: { job_id: string }[] }) => jobs.map(({ job_id }) => job_id)
    const found = async (metadata: object, more = '') => {
      const own = granted(await parley.get(`${MESSAGES}?${pairs(metadata)}${more}`, key), 200)
      const all = granted(await admin.get(`/jobs?${pairs(metadata)}${more}`), 200)
      assert.deepEqual(idsOf(all), idsOf(own))
      return idsOf(own)
    }
    assert.deepEqual(await found({ customer: 'acme' }), [both, acme])
    assert.deepEqual(await found({ customer: 'acme', team: 'a' }), [acme])
    assert.deepEqual(await found({ customer: 'acme', team: 'c' }), [])
    assert.deepEqual(await found({ customer: 'acme' }, '&limit=1'), [both])
    assert.deepEqual(await found({ customer: 'acme' }, '&status=failed'), [])
    assert.deepEqual(await found(PAIRS), [odd])
    assert.deepEqual(await found({ 'a","customer': 'acme' }), [quoted])
    assert.deepEqual(await found({ ',': ':' }), [])
    assert.deepEqual(await found({ ':': 'z' }), [shifted])
    assert.deepEqual(await found({ __proto__: 'x', toString: 'x' }), [])
    assert.deepEqual(idsOf(granted(await parley.get(`${MESSAGES}?metadata[team]=b`, key), 200)), [both])
    const other = await parley.key('user_free', 'other')
    assert.deepEqual(idsOf(granted(await parley.get(`${MESSAGES}?metadata[customer]=acme`, other), 200)), [])
    for (const [query, rule] of [
      ['metadata=acme', /^metadata: must be an object/],
      ['metadata[a]=1&metadata[a]=2', /^metadata\.a: must be a string/],
      [`metadata[a]=${'v'.repeat(513)}`, /^metadata\.a: /],
      ['status[a]=1', /^status\[a\]: is not a known field/],
      [`ids=${acme}&metadata[a]=1`, /^ids: cannot be combined with metadata/],
    ] as const) {
      invalid(await parley.get(`${MESSAGES}?${query}`, key), rule)
    }
    const client = new Parley({ baseUrl: parley.url, apiKey: key })
    const ofClient: string[] = []
    for await (const { job_id } of client.messages.list({ metadata: { customer: 'acme' }, limit: 1 })) {
      ofClient.push(job_id)
    }
    assert.deepEqual(ofClient, [both, acme])
  })

  test('operators see the metadata of a job beside its request', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    const { job_id } = granted(
      await parley.post(MESSAGES, job({ metadata: PAIRS, options: { seed: 1 } }), key),
      200,
    )
    const data = granted(await (await adminOf(parley)).get(`/jobs/${job_id}/content`), 200)
    assert.deepEqual(
      [data.response_format, data.options, data.metadata],
      [{ format: 'text' }, { seed: 1 }, PAIRS],
    )
  })

  test('while a node of an earlier version is alive, metadata is refused', async (t) => {
    const { parley } = await startStage(t)
    if (!isPostgres(parley.database)) return
    const key = await parley.key()
    const database = await connectPostgres(t, parley.database)
    await database.query(
      `insert into nodes (node, lease_until, features)
       values ('earlier', clock_timestamp() + interval '600 s', (select features from nodes limit 1))`,
    )
    await database.query(
      `update nodes set features = replace(features, 'metadata', 'other') where node = 'earlier'`,
    )
    for (;;) {
      const answer = await parley.post(MESSAGES, job({ metadata: { n: '1' } }), key)
      if (answer.status === 503) {
        assert.match(refused(answer, 503).details ?? '', /^metadata: that node would ignore it/)
        break
      }
      t.signal.throwIfAborted()
    }
    completed(await parley.post(MESSAGES, job(), key))
  })
})
