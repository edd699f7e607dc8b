/** Runs callers whose jobs have callbacks, with the receivers, and records what was promised and what arrived. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { LONG } from '../support/long-form.ts'
import { CallbackLedger, callbackTo } from './callback-ledger.ts'
import type { Caller, Reply } from './caller.ts'
import { type ReceiverEvents, startFaultyReceiver } from './faulty-receiver.ts'
import { Random } from './random.ts'
import type { Ended } from './server-process.ts'

export const KILLS = LONG ? 20 : 2
export const CALLBACKS = LONG ? 10_000 : 200
/** These settings allow more attempts than any callback needs, with short pauses. */
export const CALLBACK_SETTINGS = {
  allow_networks: ['127.0.0.0/8'],
  timeout_seconds: 1,
  retry_seconds: [0, 0.1, 0.2, ...Array.from({ length: 200 }, () => 0.4)],
}
const RECEIVERS = 4
/** While this many callbacks are missing, callers wait. Otherwise all kills could happen before most callbacks are sent. */
const MOST_MISSING = 100
const MOST_IN_A_BATCH = 10
export const JOBS_OF_A_BATCH = (1 + MOST_IN_A_BATCH) / 2
/**
 * A callback arrives again if the server is killed before it has stored the 2xx response. At most this share may do so. In the
 * short form, the share would be a handful, so the limit is as many per kill as one receiver may have in progress.
 */
const MOST_DUPLICATES = 0.02
const IN_PROGRESS = 32

/** Resolves with null if no response arrived, so that nothing was promised. */
export type SendBatch = (
  contents: readonly string[],
  over: (content: string) => object,
) => Promise<Reply | null>

export async function startCallbackRun(t: TestContext) {
  const random = Random.of(t)
  const ledger = new CallbackLedger(t)
  const events: ReceiverEvents = {
    onRequest: (request, answered) => ledger.came(request, answered),
    onUnread: (request) => ledger.unread(request),
  }
  const start = () => startFaultyReceiver(random, events)
  const receivers = await Promise.all(Array.from({ length: RECEIVERS }, start))
  t.after(() => Promise.all(receivers.map((receiver) => receiver.down())))
  const allUp = () => Promise.all(receivers.map((receiver) => receiver.up()))
  let secret: Promise<void> | undefined
  /** Sends a batch of random size to random receivers. Sometimes a receiver goes down or comes back before. */
  const ask = async (name: string, send: SendBatch) => {
    for (const receiver of receivers) await receiver.maybeTurn()
    if (ledger.missing > MOST_MISSING) {
      await allUp()
      await ledger.missingAtMost(MOST_MISSING)
    }
    const size = 1 + random.below(MOST_IN_A_BATCH)
    const contents = Array.from({ length: size }, (_, index) => `${name}, job ${index}`)
    const anyUrl = () => receivers[random.below(RECEIVERS)]?.url ?? ''
    const reply = await send(contents, (content) => callbackTo(anyUrl())(content))
    if (reply !== null) ledger.accepted(contents, reply)
  }
  return {
    ...{ random, ask },
    /** Requests the secret for verifying signatures only once, before the first batch. */
    secretFrom(request: () => Promise<Ended>): Promise<void> {
      secret ??= request().then(({ stdout, stderr }) => {
        assert.match(stdout, /^whsec_/, stderr)
        ledger.verifyBy(stdout.trim())
      })
      return secret
    },
    async askUntil(callbacks: number, send: SendBatch): Promise<void> {
      for (let asked = 0; ledger.size < callbacks; asked++) await ask(`at last, request ${asked}`, send)
    },
    /** Resolves when this many more batches have been accepted. Rejects if a callback was wrong. */
    moreBatches: (count: number) => ledger.moreBatches(count),
    /**
     * All receivers come back, although they still fail at times. Asserts that every callback arrives, that none was wrong, and
     * that few arrived again.
     */
    async end(caller: Caller, kills: number): Promise<void> {
      await allUp()
      const calmMs = performance.now()
      await ledger.missingAtMost(0)
      const tookS = (performance.now() - calmMs) / 1000
      await ledger.assertAsRead(caller)
      const again = `${ledger.duplicates} came again after a 2xx that could be read`
      const outages = receivers.reduce((sum, receiver) => sum + receiver.outages(), 0)
      const share = `${((100 * ledger.duplicates) / ledger.size).toFixed(2)}%`
      t.diagnostic(
        `${ledger.size} callbacks accepted, 0 missing, ${again} (${share}); ${ledger.requests} requests, ` +
          `${ledger.unreadAnswers} 2xx that could not be read, ${outages} outages of ${RECEIVERS} receivers; the last arrived ${tookS.toFixed(1)} s after the last batch`,
      )
      const most = Math.max(MOST_DUPLICATES * ledger.size, LONG ? 0 : kills * IN_PROGRESS)
      assert.ok(ledger.duplicates <= most, `${again}, of ${ledger.size}`)
    },
  }
}
