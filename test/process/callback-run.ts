/** Runs callers whose jobs have callbacks, with the receivers, and records what was promised and what arrived. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { CallbackLedger, callbackTo } from './callback-ledger.ts'
import type { Caller, Reply } from './caller.ts'
import { type FaultyReceiver, startFaultyReceiver } from './faulty-receiver.ts'
import { Random } from './random.ts'
import type { Ended } from './server-process.ts'

export const LONG = Boolean(process.env.PARLEY_LONG)
/** These settings allow more attempts than any callback needs, with short pauses. */
export const CALLBACK_SETTINGS = {
  allow_networks: ['127.0.0.0/8'],
  timeout_seconds: 1,
  retry_seconds: [0, 0.1, 0.2, ...Array.from({ length: 200 }, () => 0.4)],
}
const RECEIVERS = 4
/** While this many callbacks are missing, callers wait, so that kills happen while callbacks are being sent, not all before. */
const MOST_MISSING = 100
const MOST_IN_A_BATCH = 10
/** The average number of jobs in a batch. */
export const JOBS_OF_A_BATCH = (1 + MOST_IN_A_BATCH) / 2
/**
 * The limit for callbacks that arrive again after a readable 2xx response, as a share. That happens if the server is killed
 * before it has stored the 2xx. In the short form, the share would be a handful, so the limit is as many per kill as one
 * receiver may have in progress.
 */
const MOST_DUPLICATES = 0.02
const IN_PROGRESS = 32

/** Sends a batch. Resolves with null if no response arrived, so that nothing was promised. */
export type SendBatch = (
  contents: readonly string[],
  over: (content: string) => object,
) => Promise<Reply | null>

export class CallbackRun {
  readonly random: Random
  readonly #t: TestContext
  readonly #ledger: CallbackLedger
  readonly #receivers: readonly FaultyReceiver[]
  #secret: Promise<void> | undefined

  static async start(t: TestContext): Promise<CallbackRun> {
    const random = Random.of(t)
    const ledger = new CallbackLedger()
    ledger.reportMissing(t)
    const receivers = await Promise.all(
      Array.from({ length: RECEIVERS }, () =>
        startFaultyReceiver(random, {
          onRequest: (request, answered) => ledger.came(request, answered),
          onUnread: (request) => ledger.unread(request),
        }),
      ),
    )
    t.after(() => Promise.all(receivers.map((receiver) => receiver.down())))
    return new CallbackRun(t, random, ledger, receivers)
  }

  private constructor(
    t: TestContext,
    random: Random,
    ledger: CallbackLedger,
    receivers: readonly FaultyReceiver[],
  ) {
    this.#t = t
    this.random = random
    this.#ledger = ledger
    this.#receivers = receivers
  }

  /** Requests the secret for verifying signatures, once, before the first batch. */
  secretFrom(ask: () => Promise<Ended>): Promise<void> {
    this.#secret ??= ask().then(({ stdout, stderr }) => {
      assert.match(stdout, /^whsec_/, stderr)
      this.#ledger.verifyBy(stdout.trim())
    })
    return this.#secret
  }

  /** Sends a batch of random size to random receivers. Sometimes a receiver goes down or comes back before. */
  async ask(name: string, send: SendBatch): Promise<void> {
    for (const receiver of this.#receivers) await receiver.maybeTurn()
    if (this.#ledger.missing > MOST_MISSING) {
      await this.#up()
      await this.#ledger.missingAtMost(MOST_MISSING)
    }
    const size = 1 + this.random.below(MOST_IN_A_BATCH)
    const contents = Array.from({ length: size }, (_, index) => `${name}, job ${index}`)
    const reply = await send(contents, (content) => callbackTo(this.#anyUrl())(content))
    if (reply !== null) this.#ledger.accepted(contents, reply)
  }

  async askUntil(callbacks: number, send: SendBatch): Promise<void> {
    for (let asked = 0; this.#ledger.size < callbacks; asked++) {
      await this.ask(`at last, request ${asked}`, send)
    }
  }

  /** Resolves when this many more batches have been accepted. Rejects if a callback was wrong. */
  moreBatches(count: number): Promise<void> {
    return this.#ledger.moreBatches(count)
  }

  #anyUrl(): string {
    return this.#receivers[this.random.below(RECEIVERS)]?.url ?? ''
  }

  async #up(): Promise<void> {
    await Promise.all(this.#receivers.map((receiver) => receiver.up()))
  }

  /**
   * Ends the run. All receivers come back, although they still fail at times. Checks that every callback arrives, that none was
   * wrong, and that few arrived again.
   */
  async end(caller: Caller, kills: number): Promise<void> {
    await this.#up()
    const ledger = this.#ledger
    const calmMs = performance.now()
    await ledger.missingAtMost(0)
    const tookS = (performance.now() - calmMs) / 1000
    await ledger.assertAsRead(caller)
    const again = `${ledger.duplicates} came again after a 2xx that could be read`
    const outages = this.#receivers.reduce((sum, receiver) => sum + receiver.outages, 0)
    const share = `${((100 * ledger.duplicates) / ledger.size).toFixed(2)}%`
    this.#t.diagnostic(
      `${ledger.size} callbacks accepted, 0 missing, ${again} (${share}); ${ledger.requests} requests, ` +
        `${ledger.unreadAnswers} 2xx that could not be read, ${outages} outages of ${RECEIVERS} receivers; the last arrived ${tookS.toFixed(1)} s after the last batch`,
    )
    const most = Math.max(MOST_DUPLICATES * ledger.size, LONG ? 0 : kills * IN_PROGRESS)
    assert.ok(ledger.duplicates <= most, `${again}, of ${ledger.size}`)
  }
}
