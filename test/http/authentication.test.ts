/** Tests API keys, and what a key determines about its caller (SPEC §5). */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { hashKey, issueKey, makeKey } from '../../src/accounts/key.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { BATCHES, callerOf, DAY_MS, idOf, ME, MESSAGES, shareStage, startScene } from './caller.ts'
import { completed, granted, invalid, refused } from './expect.ts'

const PROBLEMS = {
  missing: 'The request has no API key.',
  unknown: 'The API key does not exist.',
  revoked: 'The API key has been revoked.',
  expired: 'The API key has expired.',
}

function unauthorised(answer: Answer, problem: keyof typeof PROBLEMS = 'unknown'): void {
  assert.deepEqual(refused(answer, 401), {
    message: 'API key is required.',
    details: `Supply a valid API key in the x-api-key header. ${PROBLEMS[problem]}`,
  })
}

/** Changes the last character of the key, so that the key's checksum is wrong. */
function misspelt(key: string): string {
  return key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
}

onEachStore(async () => {
  const begin = await shareStage()

  test('401 for a create whose account is deleted after its key was looked up, and nothing is left of it', async (t) => {
    const { parley, caller, models } = await startScene(t, { account: 'leaving' })
    await caller.me()
    await parley.store.deleteAccount('leaving', 'deleted-1')
    const answers = await Promise.all([
      caller.create(),
      caller.batch([job(), job()]),
      caller.create({}, { 'idempotency-key': 'once' }),
    ])
    for (const answer of answers) unauthorised(answer)
    assert.deepEqual(await parley.store.quotaUse('leaving'), { openJobs: 0, storedBytes: 0 })
    assert.deepEqual(await parley.store.depth(), { waiting: 0, oldestCreatedAtMs: null, assigned: 0 })
    completed(await (await callerOf(parley, 'user_max', 'staying')).create())
    assert.ok(models.requests.length <= 3, 'no job of the batch runs')
    assert.deepEqual(
      parley.log.filter(({ level }) => level === 'error'),
      [],
    )
  })

  test('5.2 401 for every missing or invalid key, on every route, in the same words but for what is wrong with it', async (t) => {
    const { parley, caller } = await begin(t)
    const { key } = caller
    const stored = idOf(await caller.create())
    const wrong: Record<string, string | undefined> = {
      missing: undefined,
      empty: '',
      malformed: 'secret',
      'too long': `${key}0`,
      'in another case': key.toLowerCase(),
      'with a wrong checksum': misspelt(key),
      unknown: makeKey(),
      'given twice': `${key}, ${key}`,
      'with a scheme': `Bearer ${key}`,
    }
    const id = randomUUID()
    const reads = [stored, id, 'x', '%zz', `${id}?wait=60`].map((path) => `${MESSAGES}/${path}`)
    for (const [name, given] of Object.entries(wrong)) {
      const headers = given === undefined ? {} : { 'x-api-key': given }
      const answers = await Promise.all([
        parley.post(MESSAGES, job(), undefined, headers),
        parley.post(MESSAGES, 'no JSON', undefined, headers),
        parley.post(BATCHES, [job()], undefined, headers),
        parley.post(BATCHES, 'no JSON', undefined, headers),
        ...[...reads, MESSAGES, `${MESSAGES}?ids=x&wait=no`, ME].map((path) =>
          parley.get(path, undefined, headers),
        ),
        parley.post(`${MESSAGES}/${id}/cancel`, '{', undefined, headers),
        parley.request(`${MESSAGES}/${id}?drop_callback=x`, { method: 'DELETE', headers }),
      ])
      const problem = given ? 'unknown' : 'missing'
      for (const answer of answers) assert.doesNotThrow(() => unauthorised(answer, problem), name)
    }
  })

  test('5.1 the key is taken from x-api-key alone', async (t) => {
    const { parley, caller } = await begin(t)
    const { key } = caller
    unauthorised(await parley.get(ME, undefined, { authorization: `Bearer ${key}` }), 'missing')
    unauthorised(await parley.get(`${ME}?x-api-key=${key}&api_key=${key}`), 'missing')
    granted(await parley.get(ME, undefined, { 'X-API-Key': key }), 200)
  })

  test('5.1 health, metrics and documents need no key', async (t) => {
    const { parley } = await begin(t)
    const documents = ['/openapi.json', '/admin/api/openapi.json', '/docs', '/docs/js/scalar.js']
    for (const path of ['/healthz', '/readyz', '/metrics', '/metrics/queue', ...documents]) {
      assert.equal((await parley.get(path)).status, 200, path)
    }
  })

  test('5.2 401 for a revoked key within 5 seconds, while the other keys of the account continue', async (t) => {
    const { parley, caller, clock } = await begin(t)
    const other = await callerOf(parley, 'user_max', caller.account)
    const { key_id } = await caller.me()
    const id = idOf(await caller.create())
    assert.equal(await parley.store.revokeKey(key_id, clock.nowMs()), 'revoked')
    clock.advance(5000)
    unauthorised(await caller.get(ME), 'revoked')
    unauthorised(await caller.create(), 'revoked')
    completed(await other.read(id))
  })

  test('5.2 401 for an expired key', async (t) => {
    const { parley, clock } = await begin(t)
    const wanted = { account: 'short', tier: 'user_go', expiresDays: 1, nowMs: clock.nowMs() }
    const issued = await issueKey(parley.store, wanted)
    assert.ok(issued.kind === 'issued')
    clock.skip(DAY_MS - 1)
    granted(await parley.get(ME, issued.key), 200)
    clock.advance(5000)
    unauthorised(await parley.get(ME, issued.key), 'expired')
  })

  test('5.2 a key that was refused before it was made works within 5 seconds', async (t) => {
    const { parley, clock } = await begin(t)
    const key = makeKey()
    unauthorised(await parley.get(ME, key))
    await parley.store.createKey({
      id: 'key_1',
      hash: hashKey(key),
      account: 'somebody',
      tier: 'user_go',
      secret: 'whsec_c29tZWJvZHk=',
      createdAtMs: clock.nowMs(),
      expiresAtMs: null,
    })
    clock.advance(5000)
    assert.equal(granted(await parley.get(ME, key), 200).account, 'somebody')
  })

  test('5.3 the tier decides, and a change of it holds within 5 seconds', async (t) => {
    const { parley, caller, clock } = await begin(t, undefined, 'user_free')
    const three = [job(), job(), job()]
    refused(await caller.create({ model: 'gpt-5' }), 403)
    refused(await caller.batch(three), 403)
    assert.equal(await parley.store.setTier(caller.account, 'user_go'), true)
    clock.advance(5000)
    assert.equal((await caller.me()).tier, 'user_go')
    completed(await caller.create({ model: 'gpt-5' }))
    await caller.enqueue(three)
  })

  test('5 the order of checks: the key, the size, the JSON, the length, the fields, the tier', async (t) => {
    const { parley, caller, models } = await startScene(t, {
      settings: {
        limits: { body_bytes: 2000, batch_body_bytes: 3000 },
        tiers: { user_free: { max_input_tokens: 20 } },
      },
      tier: 'user_free',
    })
    const large = 'x'.repeat(4000)
    const long = { messages: [{ role: 'user', content: 'hello '.repeat(100) }] }
    const wrong = { messages: [] }
    const dear = { model: 'gpt-5' }
    const is = (answer: Answer, status: number, message: RegExp) =>
      assert.match(refused(answer, status).message, message)

    unauthorised(await parley.post(BATCHES, `[${large}`), 'missing')
    is(await caller.batch(`[${large}`), 413, /too large/)
    is(await caller.batch('['), 400, /^The body is not valid JSON\.$/)
    is(await caller.batch([job({ ...wrong, ...dear }), job(long), 7]), 403, /^Maximum jobs per batch/)
    const fields = [job(dear), job({ ...wrong, ...long, messages: [] })]
    invalid(await caller.batch(fields), /^jobs\[1\]\.messages: must contain/)
    invalid(await caller.batch([job(long), job({ model: 'gpt-4' })]), /^jobs\[1\]\.model: /)
    const tier = [job(long), job({ ...long, ...dear })]
    is(await caller.batch(tier), 403, /^Input too large/)
    is(await caller.batch(tier.toReversed()), 403, /^Insufficient permissions/)

    unauthorised(await parley.post(MESSAGES, large), 'missing')
    is(await caller.post(MESSAGES, large), 413, /too large/)
    is(await caller.post(MESSAGES, '{'), 400, /^The body is not valid JSON\.$/)
    invalid(await caller.create({ ...dear, ...wrong }), /^messages: /)
    is(await caller.create({ ...dear, ...long }), 403, /^Insufficient/)
    is(await caller.create(long), 403, /^Input too large/)
    assert.equal(models.requests.length, 0)
  })

  test('5.3 jobs belong to the account: one key creates, another reads', async (t) => {
    const { parley, caller } = await begin(t)
    const other = await callerOf(parley, 'user_max', caller.account)
    completed(await other.ended(await caller.enqueueOne()))
  })
})
