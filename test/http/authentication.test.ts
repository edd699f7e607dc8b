/**
 * Tests API keys, and what a key determines about its caller (SPEC §5). Tests the limit for unknown keys, which counts by the
 * caller's address and applies before the database is queried. Tests how rejected requests are slowed down: per account, or
 * per address if they have no valid key.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test, { type TestContext } from 'node:test'
import { hashKey, makeKey } from '../../src/accounts/key.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { BATCHES, type Caller, callerOf, idOf, ME, MESSAGES, shareStage, startScene } from './caller.ts'
import { completed, granted, invalid, refused } from './expect.ts'
import { openLine } from './raw-http.ts'

const PROBLEMS = {
  missing: 'The request has no API key.',
  unknown: 'The API key does not exist.',
  revoked: 'The API key has been revoked.',
  expired: 'The API key has expired.',
}

function unauthorised(answer: Answer, problem: keyof typeof PROBLEMS = 'unknown'): void {
  refused(answer, 401, {
    message: 'API key is required.',
    details: `Supply a valid API key in the x-api-key header. ${PROBLEMS[problem]}`,
  })
}

function misspelt(key: string): string {
  return key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
}

const MAX_UNKNOWN = 5
const MINUTE_MS = 60_000

async function startGuessing(t: TestContext, settings: object = {}) {
  const limits = { unknown_keys_per_minute: MAX_UNKNOWN }
  const scene = await startScene(t, { settings: { limits, ...settings } })
  const guess = (address?: string) =>
    scene.parley.get(ME, makeKey(), address ? { 'x-forwarded-for': address } : {})
  const guessTooOften = async (address?: string) => {
    for (let sent = 0; sent < MAX_UNKNOWN; sent++) refused(await guess(address), 401)
  }
  return { ...scene, guess, guessTooOften }
}

const PER_SECOND = 5
const TURN_MS = 1000 / PER_SECOND
const LONGEST_MS = 10_000

const sendInvalid = (caller: Caller) => caller.post(MESSAGES, {})

async function spendBurst(send: () => Promise<Answer>, status: number): Promise<void> {
  for (let sent = 0; sent < PER_SECOND; sent++) refused(await send(), status)
}

async function startPaced(t: TestContext) {
  const limits = { rejections_per_second: PER_SECOND }
  const scene = await startScene(t, { settings: { limits, trust_proxy: true } })
  const delayedAre = async (count: number) => {
    const line = `\nparley_rejections_delayed_total ${count}\n`
    while (!(await scene.parley.get('/metrics')).text.includes(line)) {}
  }
  return { ...scene, delayedAre }
}

onEachStore(() => {
  const begin = shareStage()

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
    const is = (answer: Answer, status: number, message: RegExp) => refused(answer, status, { message })

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

  test('too many unknown keys: 429 that names the limit, for a minute, and the database is not asked', async (t) => {
    const { parley, clock, guess, guessTooOften } = await startGuessing(t)
    const { mock } = t.mock.method(parley.store, 'findKey')
    await guessTooOften()
    assert.equal(mock.callCount(), MAX_UNKNOWN)
    for (let more = 0; more < 20; more++) {
      const answer = await guess()
      refused(answer, 429, {
        message: 'Too many unknown API keys.',
        details:
          /^An address may send at most 5 unknown keys per minute .*\(limits\.unknown_keys_per_minute\)/,
      })
      assert.equal(answer.headers.get('retry-after'), '60')
    }
    refused(await parley.post(MESSAGES, job(), makeKey()), 429)
    assert.equal(mock.callCount(), MAX_UNKNOWN)
    assert.match((await parley.get('/metrics')).text, /^parley_unknown_key_rejections_total 21$/m)
    clock.advance(MINUTE_MS)
    refused(await guess(), 401)
  })

  test('a key that exists is never rejected: in use, new, never used before, revoked or expired', async (t) => {
    const { parley, caller: used, clock, guess, guessTooOften } = await startGuessing(t)
    const [unused, revoked] = [await callerOf(parley), await callerOf(parley)]
    const { key_id } = await revoked.me()
    await used.me()
    await guessTooOften()
    refused(await guess(), 429)
    for (const caller of [used, unused]) {
      await caller.me()
      completed(await caller.create())
    }
    await parley.store.revokeKey(key_id, clock.nowMs())
    clock.advance(2000)
    // A revoked key existed, so using it is not a guess and does not count.
    for (const key of [revoked.key, 'malformed', undefined]) refused(await parley.get(ME, key), 401)
    const late = await callerOf(parley, 'user_go', 'late')
    clock.advance(2000)
    refused(await guess(), 429)
    await late.me()
    await used.me()
  })

  test('malformed keys, and one unknown key many times at once, are no guesses', async (t) => {
    const { parley, guess } = await startGuessing(t)
    const one = makeKey()
    for (let sent = 0; sent < 3 * MAX_UNKNOWN; sent++) {
      for (const key of [`prl_${sent}`, one]) refused(await parley.get(ME, key), 401)
    }
    refused(await guess(), 401)
  })

  test('behind a trusted proxy the address is the caller’s own, and otherwise the proxy’s', async (t) => {
    const [one, other] = ['203.0.113.7', '203.0.113.8']
    const trusting = await startGuessing(t, { trust_proxy: true })
    await trusting.guessTooOften(one)
    refused(await trusting.guess(one), 429)
    refused(await trusting.guess(other), 401)
    const suspicious = await startGuessing(t)
    await suspicious.guessTooOften(one)
    refused(await suspicious.guess(other), 429)
  })

  test('an account whose requests are rejected too often gets its answers at the pace', async (t) => {
    const { parley, caller, clock, delayedAre } = await startPaced(t)
    await spendBurst(() => sendInvalid(caller), 400)
    let answered = 0
    const answers = [1, 2, 3].map(async () => {
      refused(await sendInvalid(caller), 400)
      answered += 1
    })
    await delayedAre(3)
    for (const [before] of answers.entries()) {
      await parley.get('/healthz')
      assert.equal(answered, before)
      clock.advance(TURN_MS)
      while (answered === before) await parley.get('/healthz')
    }
    await Promise.all(answers)
  })

  test('its jobs are not delayed, nor are rejections of other accounts and addresses', async (t) => {
    const { parley, caller, delayedAre } = await startPaced(t)
    await spendBurst(() => sendInvalid(caller), 400)
    const late = sendInvalid(caller)
    await delayedAre(1)
    completed(await caller.create())
    refused(await sendInvalid(await callerOf(parley, 'user_free')), 400)
    refused(await parley.get(ME), 401)
    await parley.stop()
    refused(await late, 400)
  })

  test('requests without a valid key are paced by address, and keys that are valid are not', async (t) => {
    const { parley, caller, clock, delayedAre } = await startPaced(t)
    const from = (address: string) => parley.get(ME, 'no key', { 'x-forwarded-for': address })
    await spendBurst(() => from('192.0.2.1'), 401)
    const late = from('192.0.2.1')
    await delayedAre(1)
    refused(await from('192.0.2.2'), 401)
    completed(await caller.create({}, { 'x-forwarded-for': '192.0.2.1' }))
    clock.advance(TURN_MS)
    refused(await late, 401)
  })

  test('a body counts by its bytes, and no answer is delayed for more than ten seconds', async (t) => {
    const { caller, clock, delayedAre } = await startPaced(t)
    refused(await caller.batch([job({ messages: [], model: 'x'.repeat(2 ** 20) })]), 400)
    const late = sendInvalid(caller)
    await delayedAre(1)
    clock.advance(LONGEST_MS)
    refused(await late, 400)
  })

  test('a 503 of a database that rejects writes is not delayed, and does not count', async (t) => {
    const { parley, caller } = await startPaced(t)
    await spendBurst(() => sendInvalid(caller), 400)
    parley.store.accept = () => Promise.reject(new StoreUnavailable('the disk is full'))
    for (let sent = 0; sent < 3; sent++) refused(await caller.create(), 503)
    assert.match((await parley.get('/metrics')).text, /\nparley_rejections_delayed_total 0\n/)
  })

  test('a large file that needs no key counts by its bytes, for the address, and answers of accounts do not', async (t) => {
    const { parley, caller, clock, delayedAre } = await startPaced(t)
    const script = () => parley.get('/docs/js/scalar.js')
    assert.equal((await script()).status, 200)
    const late = script()
    await delayedAre(1)
    completed(await caller.create())
    assert.equal((await parley.get('/healthz')).status, 200)
    clock.advance(LONGEST_MS)
    assert.equal((await late).status, 200)
  })

  test('what a client that hangs up would have got is dropped', async (t) => {
    const { parley, caller, clock, delayedAre } = await startPaced(t)
    await spendBurst(() => sendInvalid(caller), 400)
    const line = openLine(parley)
    line.send(`GET ${MESSAGES}/x HTTP/1.1\r\nhost: parley\r\nx-api-key: ${caller.key}\r\n\r\n`)
    await delayedAre(1)
    line.hangUp()
    while (clock.pending().includes(TURN_MS)) await parley.get('/healthz')
  })
})
