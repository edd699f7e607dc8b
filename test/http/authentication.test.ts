/** Tests API keys, and what a key determines about its caller (SPEC §5). */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { hashKey, issueKey, makeKey } from '../../src/accounts/key.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { completed, granted, invalid, refused, timedOut } from './expect.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const ME = '/api/v1/me'
const DAY_MS = 86_400_000

const REFUSAL = {
  success: false,
  message: 'API key is required.',
  details: 'Supply a valid API key in the x-api-key header.',
}

type Problem = keyof typeof PROBLEMS
const PROBLEMS = {
  missing: 'The request has no API key.',
  unknown: 'The API key does not exist.',
  revoked: 'The API key has been revoked.',
  expired: 'The API key has expired.',
}

function unauthorised(answer: Answer, problem: Problem = 'unknown'): void {
  refused(answer, 401)
  assert.deepEqual(answer.body, { ...REFUSAL, details: `${REFUSAL.details} ${PROBLEMS[problem]}` })
}

/** Changes the last character of the key, so that the key's checksum is wrong. */
function misspelt(key: string): string {
  return key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
}

onEachStore(() => {
  test('401 for a create whose account is deleted after its key was looked up, and nothing is left of it', async (t) => {
    const { parley, models } = await startStage(t)
    const key = await parley.key('user_max', 'leaving')
    assert.equal((await parley.get(ME, key)).status, 200)
    await parley.store.deleteAccount('leaving', 'deleted-1')
    const answers = await Promise.all([
      parley.post(MESSAGES, job(), key),
      parley.post(BATCHES, [job(), job()], key),
      parley.post(MESSAGES, job(), key, { 'idempotency-key': 'once' }),
    ])
    for (const answer of answers) unauthorised(answer)
    assert.deepEqual(await parley.store.quotaUse('leaving'), { openJobs: 0, storedBytes: 0 })
    assert.deepEqual(await parley.store.depth(), { waiting: 0, oldestCreatedAtMs: null, assigned: 0 })
    completed(await parley.post(MESSAGES, job(), await parley.key('user_max', 'staying')))
    assert.ok(models.requests.length <= 3, 'no job of the batch runs')
    assert.deepEqual(
      parley.log.filter(({ level }) => level === 'error'),
      [],
    )
  })

  test('5.2 401 for every missing or invalid key, on every route, in the same words but for what is wrong with it', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
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
    for (const [name, given] of Object.entries(wrong)) {
      const headers = given === undefined ? {} : { 'x-api-key': given }
      const answers = await Promise.all([
        parley.post(MESSAGES, job(), undefined, headers),
        parley.post(BATCHES, [job()], undefined, headers),
        parley.get(`${MESSAGES}/${randomUUID()}`, undefined, headers),
        parley.get(`${MESSAGES}/${randomUUID()}?wait=60`, undefined, headers),
        parley.get(MESSAGES, undefined, headers),
        parley.get(`${MESSAGES}?ids=x&wait=no`, undefined, headers),
        parley.post(`${MESSAGES}/${randomUUID()}/cancel`, '{', undefined, headers),
        parley.request(`${MESSAGES}/${randomUUID()}?drop_callback=x`, { method: 'DELETE', headers }),
        parley.get(ME, undefined, headers),
      ])
      const problem = given ? 'unknown' : 'missing'
      for (const answer of answers) assert.doesNotThrow(() => unauthorised(answer, problem), name)
    }
  })

  test('5.1 the key is taken from x-api-key alone', async (t) => {
    const { parley } = await startStage(t)
    const key = await parley.key()
    unauthorised(await parley.get(ME, undefined, { authorization: `Bearer ${key}` }), 'missing')
    unauthorised(await parley.get(`${ME}?x-api-key=${key}&api_key=${key}`), 'missing')
    granted(await parley.get(ME, undefined, { 'X-API-Key': key }), 200)
  })

  test('5.1 health, metrics and documents need no key', async (t) => {
    const { parley } = await startStage(t)
    const documents = ['/openapi.json', '/admin/api/openapi.json', '/docs', '/docs/js/scalar.js']
    for (const path of ['/healthz', '/readyz', '/metrics', '/metrics/queue', ...documents]) {
      assert.equal((await parley.get(path)).status, 200, path)
    }
  })

  test('5.2 401 for a revoked key within 5 seconds, while the other keys of the account continue', async (t) => {
    const { parley, clock } = await startStage(t)
    const [key, other] = [await parley.key(), await parley.key()]
    const keyId = granted(await parley.get(ME, key), 200).key_id
    const id = (await parley.post(MESSAGES, job(), key)).body.data.job_id
    assert.equal(await parley.store.revokeKey(keyId, clock.nowMs()), 'revoked')
    clock.advance(5000)
    unauthorised(await parley.get(ME, key), 'revoked')
    unauthorised(await parley.post(MESSAGES, job(), key), 'revoked')
    completed(await parley.get(`${MESSAGES}/${id}`, other))
  })

  test('5.2 401 for an expired key', async (t) => {
    const { parley, clock } = await startStage(t)
    const issued = await issueKey(parley.store, {
      account: 'somebody',
      tier: 'user_go',
      expiresDays: 1,
      nowMs: clock.nowMs(),
    })
    assert.ok(issued.kind === 'issued')
    clock.skip(DAY_MS - 1)
    granted(await parley.get(ME, issued.key), 200)
    clock.advance(5000)
    unauthorised(await parley.get(ME, issued.key), 'expired')
  })

  test('5.2 a key that was refused before it was made works within 5 seconds', async (t) => {
    const { parley, clock } = await startStage(t)
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
    const { parley, clock } = await startStage(t)
    const key = await parley.key('user_free', 'somebody')
    refused(await parley.post(MESSAGES, job({ model: 'gpt-5' }), key), 403)
    refused(await parley.post(BATCHES, [job(), job(), job()], key), 403)
    assert.equal(await parley.store.setTier('somebody', 'user_go'), true)
    clock.advance(5000)
    assert.equal(granted(await parley.get(ME, key), 200).tier, 'user_go')
    completed(await parley.post(MESSAGES, job({ model: 'gpt-5' }), key))
    granted(await parley.post(BATCHES, [job(), job(), job()], key), 202)
  })

  test('5 the order of checks: the key, the size, the JSON, the length, the fields, the tier', async (t) => {
    const { parley, models } = await startStage(t, {
      settings: {
        limits: { body_bytes: 2000, batch_body_bytes: 3000 },
        tiers: { user_free: { max_input_tokens: 20 } },
      },
    })
    const key = await parley.key('user_free')
    const large = 'x'.repeat(4000)
    const long = { messages: [{ role: 'user', content: 'hello '.repeat(100) }] }
    const wrong = { messages: [] }
    const dear = { model: 'gpt-5' }

    unauthorised(await parley.post(BATCHES, `[${large}`), 'missing')
    refused(await parley.post(BATCHES, `[${large}`, key), 413)
    assert.equal(refused(await parley.post(BATCHES, '[', key), 400).message, 'The body is not valid JSON.')
    const three = [job({ ...wrong, ...dear }), job(long), 7]
    assert.match(refused(await parley.post(BATCHES, three, key), 403).message, /^Maximum jobs per batch/)
    const fields = [job({ ...dear }), job({ ...wrong, ...long, messages: [] })]
    invalid(await parley.post(BATCHES, fields, key), /^jobs\[1\]\.messages: must contain/)
    invalid(await parley.post(BATCHES, [job(long), job({ model: 'gpt-4' })], key), /^jobs\[1\]\.model: /)
    const tier = [job(long), job({ ...long, ...dear })]
    assert.match(refused(await parley.post(BATCHES, tier, key), 403).message, /^Input too large/)
    assert.match(
      refused(await parley.post(BATCHES, tier.toReversed(), key), 403).message,
      /^Insufficient permissions/,
    )

    unauthorised(await parley.post(MESSAGES, large), 'missing')
    refused(await parley.post(MESSAGES, large, key), 413)
    assert.equal(refused(await parley.post(MESSAGES, '{', key), 400).message, 'The body is not valid JSON.')
    invalid(await parley.post(MESSAGES, job({ ...dear, ...wrong }), key), /^messages: /)
    assert.match(
      refused(await parley.post(MESSAGES, job({ ...dear, ...long }), key), 403).message,
      /^Insufficient/,
    )
    assert.match(refused(await parley.post(MESSAGES, job(long), key), 403).message, /^Input too large/)
    assert.equal(models.requests.length, 0)
  })

  test('5.3 jobs belong to the account: one key creates, another reads', async (t) => {
    const { parley } = await startStage(t, { settings: { sync: { max_waiters: 0 } } })
    const [one, two] = [await parley.key(), await parley.key()]
    const id = timedOut(await parley.post(MESSAGES, job(), one))
    completed(await parley.ended(id, two))
  })
})
