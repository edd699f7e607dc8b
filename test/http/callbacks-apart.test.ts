/**
 * Tests that a job's result never depends on its callback, and that the callbacks of one account never depend on another
 * account's receivers (SPEC §6).
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { onEachStore } from '../on-each-store.ts'
import { job, startParley } from '../parley.ts'
import { type Receiver, startReceiver } from '../receiver.ts'
import { type Caller, callerOf, LOCAL_CALLBACKS } from './caller.ts'
import { completed } from './expect.ts'

const BATCH = 30
/** Together, these batches have more callbacks than a node sends at once. */
const BATCHES_OF_ONE_RECEIVER = 10
const ROUNDS = 3

const receiver = (t: TestContext, kind: 'answer' | 'stall') => startReceiver({ reply: () => ({ kind }) }, t)

const createBatch = (caller: Caller, { url }: Receiver): Promise<string[]> =>
  caller.enqueue(Array.from({ length: BATCH }, () => job({ callback: { callback_url: `${url}/hook` } })))

onEachStore(() => {
  /** The receiver of one account doesn't answer during the whole test, so requests to it stay open. */
  test('6 receivers that stall or are down change no result and delay no callback of another account', {
    timeout: 60_000,
  }, async (t) => {
    const [stalling, healthy] = [await receiver(t, 'stall'), await receiver(t, 'answer')]
    const ending = await receiver(t, 'answer')
    await ending.close()
    const retry_seconds = [0, ...Array.from({ length: 1000 }, () => 0.5)]
    const callbacks = { ...LOCAL_CALLBACKS.callbacks, timeout_seconds: 3600, retry_seconds }
    const parley = await startParley(t, { settings: { callbacks } })
    const unlucky = await callerOf(parley, 'user_max', 'unlucky')
    const other = await callerOf(parley, 'user_max', 'other')

    const ids: string[] = []
    for (let batch = 0; batch < BATCHES_OF_ONE_RECEIVER; batch++) {
      for (const to of [stalling, ending]) ids.push(...(await createBatch(unlucky, to)))
    }
    for (const id of ids) completed(await unlucky.ended(id))
    await stalling.received(1)

    for (let round = 1; round <= ROUNDS; round++) {
      const created = await createBatch(other, healthy)
      const requests = (await healthy.received(round * BATCH)).slice(-BATCH)
      const arrived = requests.map(({ headers }) => headers['webhook-id'])
      assert.deepEqual(arrived.sort(), [...created].sort())
      for (const caller of [unlucky, other]) completed(await caller.create())
    }
    assert.ok(stalling.open() > 0, 'the receiver holds what it was sent')
    assert.equal(stalling.open(), stalling.requests.length, 'the receiver has sent no response')
    t.diagnostic(`${stalling.requests.length} callbacks held, ${ROUNDS * BATCH} of the other account arrived`)
  })
})
