/** Tests that responses to rejected requests are paced: per account, or per address if the request has no valid key. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { StoreUnavailable } from '../../src/store/store.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, job } from '../parley.ts'
import { type Caller, callerOf, ME, MESSAGES, startScene } from './caller.ts'
import { completed, refused } from './expect.ts'
import { openLine } from './raw-http.ts'

const PER_SECOND = 5
const TURN_MS = 1000 / PER_SECOND
const LONGEST_MS = 10_000

const invalid = (caller: Caller) => caller.post(MESSAGES, {})

/** Sends as many requests as Parley rejects without a delay. */
async function spendBurst(send: () => Promise<Answer>, status: number): Promise<void> {
  for (let sent = 0; sent < PER_SECOND; sent++) refused(await send(), status)
}

async function start(t: TestContext) {
  const limits = { rejections_per_second: PER_SECOND }
  const scene = await startScene(t, { settings: { limits, trust_proxy: true } })
  /** Resolves when this many responses have been delayed. */
  const delayedAre = async (count: number) => {
    const line = `\nparley_rejections_delayed_total ${count}\n`
    while (!(await scene.parley.get('/metrics')).text.includes(line)) {}
  }
  return { ...scene, delayedAre }
}

onEachStore(() => {
  test('an account whose requests are rejected too often gets its answers at the pace', async (t) => {
    const { parley, caller, clock, delayedAre } = await start(t)
    await spendBurst(() => invalid(caller), 400)
    let answered = 0
    const answers = [1, 2, 3].map(async () => {
      refused(await invalid(caller), 400)
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
    const { parley, caller, delayedAre } = await start(t)
    await spendBurst(() => invalid(caller), 400)
    const late = invalid(caller)
    await delayedAre(1)
    completed(await caller.create())
    refused(await invalid(await callerOf(parley, 'user_free')), 400)
    refused(await parley.get(ME), 401)
    await parley.stop()
    refused(await late, 400)
  })

  test('requests without a valid key are paced by address, and keys that are valid are not', async (t) => {
    const { parley, caller, clock, delayedAre } = await start(t)
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
    const { caller, clock, delayedAre } = await start(t)
    refused(await caller.batch([job({ messages: [], model: 'x'.repeat(2 ** 20) })]), 400)
    const late = invalid(caller)
    await delayedAre(1)
    clock.advance(LONGEST_MS)
    refused(await late, 400)
  })

  test('a 503 of a database that rejects writes is not delayed, and does not count', async (t) => {
    const { parley, caller } = await start(t)
    await spendBurst(() => invalid(caller), 400)
    parley.store.accept = () => Promise.reject(new StoreUnavailable('the disk is full'))
    for (let sent = 0; sent < 3; sent++) refused(await caller.create(), 503)
    assert.match((await parley.get('/metrics')).text, /\nparley_rejections_delayed_total 0\n/)
  })

  test('a large file that needs no key counts by its bytes, for the address, and answers of accounts do not', async (t) => {
    const { parley, caller, clock, delayedAre } = await start(t)
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
    const { parley, caller, clock, delayedAre } = await start(t)
    await spendBurst(() => invalid(caller), 400)
    const line = openLine(parley)
    line.send(`GET ${MESSAGES}/x HTTP/1.1\r\nhost: parley\r\nx-api-key: ${caller.key}\r\n\r\n`)
    await delayedAre(1)
    line.hangUp()
    while (clock.pending().includes(TURN_MS)) await parley.get('/healthz')
  })
})
