/** Tests that responses to rejected requests are paced: per account, or per address if the request has no valid key. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { StoreUnavailable } from '../../src/store/store.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job, type Parley } from '../parley.ts'
import { completed, refused } from './expect.ts'
import { openLine } from './raw-http.ts'
import { startStage } from './stage.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = '/api/v1/messages/batches'
const PER_SECOND = 5
const TURN_MS = 1000 / PER_SECOND
const LONGEST_MS = 10_000

const start = (t: TestContext) =>
  startStage(t, { settings: { limits: { rejections_per_second: PER_SECOND }, trust_proxy: true } })

const invalid = (parley: Parley, key: string) => parley.post(MESSAGES, {}, key)

/** Sends as many requests as Parley rejects without a delay. */
async function spendBurst(send: () => Promise<Answer>, status: number): Promise<void> {
  for (let sent = 0; sent < PER_SECOND; sent++) refused(await send(), status)
}

/** Resolves when this many responses have been delayed. */
async function delayedAre(parley: Parley, count: number): Promise<void> {
  const line = `\nparley_rejections_delayed_total ${count}\n`
  while (!(await parley.get('/metrics')).text.includes(line)) {}
}

onEachStore(() => {
  test('an account whose requests are rejected too often gets its answers at the pace', async (t) => {
    const { parley, clock } = await start(t)
    const key = await parley.key()
    await spendBurst(() => invalid(parley, key), 400)
    let answered = 0
    const answers = [1, 2, 3].map(async () => {
      refused(await invalid(parley, key), 400)
      answered += 1
    })
    await delayedAre(parley, 3)
    for (const [before] of answers.entries()) {
      await parley.get('/healthz')
      assert.equal(answered, before)
      clock.advance(TURN_MS)
      while (answered === before) await parley.get('/healthz')
    }
    await Promise.all(answers)
  })

  test('its jobs are not delayed, nor are rejections of other accounts and addresses', async (t) => {
    const { parley } = await start(t)
    const [key, other] = [await parley.key('user_free', 'one'), await parley.key('user_free', 'other')]
    await spendBurst(() => invalid(parley, key), 400)
    const late = invalid(parley, key)
    await delayedAre(parley, 1)
    completed(await parley.post(MESSAGES, job(), key))
    refused(await invalid(parley, other), 400)
    refused(await parley.get('/api/v1/me'), 401)
    await parley.stop()
    refused(await late, 400)
  })

  test('requests without a valid key are paced by address, and keys that are valid are not', async (t) => {
    const { parley, clock } = await start(t)
    const key = await parley.key()
    const from = (address: string) => parley.get('/api/v1/me', 'no key', { 'x-forwarded-for': address })
    await spendBurst(() => from('192.0.2.1'), 401)
    const late = from('192.0.2.1')
    await delayedAre(parley, 1)
    refused(await from('192.0.2.2'), 401)
    completed(await parley.post(MESSAGES, job(), key, { 'x-forwarded-for': '192.0.2.1' }))
    clock.advance(TURN_MS)
    refused(await late, 401)
  })

  test('a body counts by its bytes, and no answer is delayed for more than ten seconds', async (t) => {
    const { parley, clock } = await start(t)
    const key = await parley.key()
    const large = `[${JSON.stringify(job({ messages: [], model: 'x'.repeat(2 ** 20) }))}]`
    refused(await parley.post(BATCHES, large, key), 400)
    const late = invalid(parley, key)
    await delayedAre(parley, 1)
    clock.advance(LONGEST_MS)
    refused(await late, 400)
  })

  test('a 503 of a database that rejects writes is not delayed, and does not count', async (t) => {
    const { parley } = await start(t)
    const key = await parley.key()
    await spendBurst(() => invalid(parley, key), 400)
    parley.store.accept = () => Promise.reject(new StoreUnavailable('the disk is full'))
    for (let sent = 0; sent < 3; sent++) refused(await parley.post(MESSAGES, job(), key), 503)
    assert.match((await parley.get('/metrics')).text, /\nparley_rejections_delayed_total 0\n/)
  })

  test('a large file that needs no key counts by its bytes, for the address, and answers of accounts do not', async (t) => {
    const { parley, clock } = await start(t)
    const key = await parley.key()
    const script = () => parley.get('/docs/js/scalar.js')
    assert.equal((await script()).status, 200)
    const late = script()
    await delayedAre(parley, 1)
    completed(await parley.post(MESSAGES, job(), key))
    assert.equal((await parley.get('/healthz')).status, 200)
    clock.advance(LONGEST_MS)
    assert.equal((await late).status, 200)
  })

  test('what a client that hangs up would have got is dropped', async (t) => {
    const { parley, clock } = await start(t)
    const key = await parley.key()
    await spendBurst(() => invalid(parley, key), 400)
    const line = openLine(parley)
    line.send(`GET /api/v1/messages/x HTTP/1.1\r\nhost: parley\r\nx-api-key: ${key}\r\n\r\n`)
    await delayedAre(parley, 1)
    line.hangUp()
    while (clock.pending().includes(TURN_MS)) await parley.get('/healthz')
  })
})
