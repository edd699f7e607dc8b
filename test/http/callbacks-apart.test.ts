/**
 * Tests that a job's result never depends on its callback, and that the callbacks of one account never depend on another
 * account's receivers (SPEC §6).
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley, startParley } from '../parley.ts'
import { type Receiver, startReceiver } from '../receiver.ts'
import { enqueued } from './expect.ts'

const timeout = 60_000
const BATCHES = '/api/v1/messages/batches'
const BATCH = 30
/** Together, these batches have more callbacks than a node sends at once. */
const BATCHES_OF_ONE_RECEIVER = 10
const ROUNDS = 3

async function receiver(t: TestContext, kind: 'answer' | 'stall'): Promise<Receiver> {
  const started = await startReceiver({ reply: () => ({ kind }) }, t)
  return started
}

async function createBatch(parley: Parley, key: string, url: string): Promise<string[]> {
  const jobs = Array.from({ length: BATCH }, () => job({ callback: { callback_url: `${url}/hook` } }))
  return enqueued(await parley.post(BATCHES, jobs, key), BATCH)
}

onEachStore(() => {
  /** The receiver of one account doesn't answer during the whole test, so requests to it stay open. */
  test('6 receivers that stall or are down change no result and delay no callback of another account', {
    timeout,
  }, async (t) => {
    const [stalling, healthy, ending] = [
      await receiver(t, 'stall'),
      await receiver(t, 'answer'),
      await receiver(t, 'answer'),
    ]
    await ending.close()
    const callbacks = {
      allow_networks: ['127.0.0.0/8'],
      timeout_seconds: 3600,
      retry_seconds: [0, ...Array.from({ length: 1000 }, () => 0.5)],
    }
    const parley = await startParley(t, { settings: { callbacks } })
    const [unlucky, other] = [await parley.key('user_max', 'unlucky'), await parley.key('user_max', 'other')]

    const ids: string[] = []
    for (let batch = 0; batch < BATCHES_OF_ONE_RECEIVER; batch++) {
      ids.push(...(await createBatch(parley, unlucky, stalling.url)))
      ids.push(...(await createBatch(parley, unlucky, ending.url)))
    }
    for (const id of ids) {
      const { body } = await parley.ended(id, unlucky)
      assert.equal(body.data.status, 'completed')
      assert.equal(body.data.error, null)
    }
    await stalling.received(1)

    for (let round = 1; round <= ROUNDS; round++) {
      const created = await createBatch(parley, other, healthy.url)
      const requests = await healthy.received(round * BATCH)
      assert.deepEqual(
        requests
          .slice(-BATCH)
          .map(({ headers }) => headers['webhook-id'])
          .sort(),
        [...created].sort(),
      )
      for (const key of [unlucky, other]) {
        const { status, body } = await parley.post('/api/v1/messages', job(), key)
        assert.deepEqual([status, body.data.status], [200, 'completed'])
      }
    }
    assert.ok(stalling.open() > 0, 'the receiver holds what it was sent')
    assert.equal(stalling.open(), stalling.requests.length, 'the receiver has sent no response')
    t.diagnostic(`${stalling.requests.length} callbacks held, ${ROUNDS * BATCH} of the other account arrived`)
  })
})
