/**
 * Simulates model servers behind the interface that the router calls. Each upstream has its current fault, and each job its
 * manner.
 */
import type { Clock } from '../../src/clock.ts'
import type { Message } from '../../src/job/job.ts'
import type { StopSignal } from '../../src/job/stop.ts'
import type {
  ModelServer,
  Prompt,
  Reply,
  RequestFormat,
  TokenCount,
  UpstreamError,
} from '../../src/upstreams/model-server.ts'
import { upstreamError } from '../../src/upstreams/read-completion.ts'
import type { JobCall } from './calls.ts'
import type { CallCounts, CallInProgress, Ledger } from './ledger.ts'
import type { JobManner, UpstreamFault } from './plan.ts'
import { UNSTORABLE } from './store-connection.ts'
import type { Witness } from './witness.ts'
import type { SimulatedThread, World } from './world.ts'

export const CALL_TIMEOUT_MS = 20_000
/** An answer has at most this many tokens. The settings of the models promise the same number as `max_output_tokens`. */
export const MAX_OUTPUT_TOKENS = 50
/** For a job with the manner `wrong, then overloaded`, the upstreams are overloaded for this long. */
const OVERLOADED_MS = 8000
const FEW = 2
export const RESTART_MS = 2000
const HOUR_MS = 3_600_000

export interface Upstream {
  readonly name: string
  fault: UpstreamFault | null
  isDown: boolean
  inProgress: number
  /** Each function breaks the connection of a call in progress when the server crashes. */
  readonly onCrash: Set<() => void>
}

export interface ServerOptions {
  readonly world: World
  readonly ledger: Ledger
  readonly upstream: Upstream
  readonly thread: SimulatedThread
  readonly clock: Clock
  readonly witness: Witness
  readonly kill: () => void
}

const FAILURES: Readonly<Record<string, UpstreamError>> = {
  refused: upstreamError({
    message: 'refused',
    retryable: true,
    code: 'ECONNREFUSED',
    connection: 'connection',
  }),
  reset: upstreamError({
    message: 'reset',
    retryable: true,
    code: 'ECONNRESET',
    connection: 'connection',
    broke: true,
  }),
  '500': upstreamError({ message: 'internal error', retryable: true, status: 500 }),
  '503': upstreamError({ message: 'overloaded', retryable: true, status: 503 }),
  '429': upstreamError({ message: 'too many', retryable: true, status: 429, retryAfterMs: 10_000 }),
  '401': upstreamError({ message: 'wrong key', retryable: false, status: 401 }),
  forbidden: upstreamError({ message: 'blocked', retryable: false, status: 403 }),
  fails: upstreamError({ message: 'no such token', retryable: true, status: 500 }),
  later: upstreamError({ message: 'not now', retryable: true, status: 503, retryAfterMs: HOUR_MS }),
  invalid: upstreamError({ message: 'no such parameter', status: 400 }),
}
/** These errors may count against a job. */
const BLAMED = ['reset', '500', '401', 'invalid', 'forbidden', 'fails']

export function simulatedServer(options: ServerOptions): ModelServer {
  const { world, upstream, thread } = options
  return {
    name: upstream.name,
    ask: (_model, prompt, format, signal) => new ServedCall(options, prompt, format, signal).ended,
    requestFormat: (_model, { form }, avoidsSchema = false): RequestFormat =>
      form.kind === 'text'
        ? { roles: 'native' }
        : { roles: 'native', json_mode: avoidsSchema ? NO_SCHEMA : 'simulated' },
    otherFormat: () => null,
    learnedRoles: () => null,
    check: () =>
      new Promise((resolve) => {
        const { fault } = upstream
        const failing = upstream.isDown ? 'refused' : fault
        // A server that has too many calls still lists its models.
        const trouble = failing === null || failing === '429' ? null : (FAILURES[failing] ?? null)
        const answers = fault === 'hang' ? CALL_TIMEOUT_MS : world.random.next() * 50
        world.after(answers, `check of ${upstream.name}, ${thread.name}`, () => resolve(trouble), thread)
      }),
    close: async () => {},
  }
}

/** A job whose schema may crash the server gets this `json_mode`: the schema is sent as an instruction. */
const NO_SCHEMA = 'instruction'

export function tokensOf(messagesJson: string): number {
  return Math.ceil(messagesJson.length / 4)
}

class ServedCall {
  readonly ended: Promise<Reply>
  readonly #options: ServerOptions
  readonly #prompt: Prompt
  readonly #signal: StopSignal
  readonly #resolve: (reply: Reply) => void
  readonly #cancelTimeout: () => void
  readonly #tag: string
  readonly #isRepair: boolean
  readonly #hasSchema: boolean
  readonly #known: CallInProgress
  #isEnded = false

  constructor(options: ServerOptions, prompt: Prompt, format: RequestFormat, signal: StopSignal) {
    const { world, upstream, ledger, clock } = options
    const { promise, resolve } = Promise.withResolvers<Reply>()
    this.ended = promise
    this.#resolve = resolve
    this.#options = options
    this.#prompt = prompt
    this.#signal = signal
    const messages = JSON.parse(prompt.messagesJson) as Message[]
    this.#tag = messages[0]?.content.split(' ', 1)[0] ?? ''
    this.#isRepair = messages.length > 1
    this.#known = { account: prompt.account, tag: this.#tag, thread: options.thread }
    this.#hasSchema = prompt.form.kind === 'schema' && format.json_mode !== NO_SCHEMA
    ledger.callsOf(prompt.account, this.#tag).calls += 1
    ledger.jobCalls.sent(this.#call, this.#knownMs)
    signal.listen(this)
    this.#cancelTimeout = clock.after(CALL_TIMEOUT_MS, () =>
      this.#fail(upstreamError({ message: 'timed out', retryable: true, timedOut: true })),
    )
    world.after(world.random.next() * 3, `call to ${upstream.name}`, () => this.#arrive())
  }

  onStop(): void {
    this.#end(upstreamError({ message: 'aborted', aborted: true }))
  }

  #arrive(): void {
    const { world, upstream, ledger, thread, kill } = this.#options
    const { random } = world
    if (this.#isEnded || thread.state === 'ended') return
    const counts = this.#counts
    counts.firstAtMs ??= world.nowMs
    ledger.callsInProgress.add(this.#known)
    const manner = ledger.plans.get(this.#tag)?.manner ?? 'answer'
    const isSecond = upstream.name === 'beta' && upstream.fault === null
    upstream.onCrash.add(this.#onCrash)
    const outage = FAILURES[upstream.isDown ? 'refused' : (upstream.fault ?? '')]
    if (upstream.fault === 'hang' || (manner === 'unanswered' && outage === undefined)) return
    const failure = outage ?? FAILURES[manner === 'reset' && !isSecond ? 'reset' : manner]
    const isBusy = upstream.fault === 'few at once' && upstream.inProgress >= FEW
    const error = failure ?? (isBusy || this.#isOverloaded(manner, counts) ? FAILURES['503'] : undefined)
    if (error !== undefined) {
      this.#later(random.next() * 30, error)
      return
    }
    if (manner === 'crash always' || (manner === 'crash' && this.#hasSchema)) {
      world.after(random.next() * 100, `${this.#tag} crashes ${upstream.name}`, () => this.#crash())
      return
    }
    if (manner === 'kill') {
      world.after(random.next() * 100, `a job kills ${thread.name}`, kill)
      return
    }
    upstream.inProgress += 1
    const slow = upstream.fault === 'slow' ? 8 : 1
    const quickMs = random.chance(0.1) ? 0 : random.next() ** 3 * 2000
    const ms = manner === 'answer slowly' ? random.whole(2000, 18_000) : slow * quickMs
    world.after(ms, `answer of ${upstream.name} to ${this.#tag}`, () => {
      upstream.inProgress -= 1
      this.#later(random.next() * 3, this.#answer(manner))
    })
  }

  #crash(): void {
    const { world, upstream, ledger } = this.#options
    if (this.#isEnded || upstream.isDown) return
    world.note(`${upstream.name} crashes because of ${this.#tag}`)
    ledger.jobCalls.crashed(this.#call, this.#hasSchema)
    upstream.isDown = true
    world.after(RESTART_MS, `${upstream.name} starts again`, () => {
      upstream.isDown = false
    })
    for (const onCrash of [...upstream.onCrash]) onCrash()
  }

  readonly #onCrash = () => {
    const { reset } = FAILURES
    if (reset !== undefined) this.#later(this.#options.world.random.next() * 3, reset)
  }

  get #call(): JobCall {
    const { upstream, thread } = this.#options
    return { process: thread.name, account: this.#prompt.account, tag: this.#tag, upstream: upstream.name }
  }

  /**
   * The process learned at this time that the job is assigned to it. Null means that it has not learned that, or that other
   * jobs have the same tag.
   */
  get #knownMs(): number | null {
    const { jobs, jobId } = this.#counts
    const { witness, thread } = this.#options
    return jobs === 1 && jobId !== null ? witness.knownMs(jobId, thread.name) : null
  }

  #isOverloaded(manner: JobManner, counts: CallCounts): boolean {
    if (manner !== 'wrong, then overloaded' || !this.#isRepair) return false
    const { world } = this.#options
    counts.overloadedUntilMs ??= world.nowMs + OVERLOADED_MS
    return world.nowMs < counts.overloadedUntilMs
  }

  #answer(manner: JobManner): Reply {
    const { account, form, messagesJson } = this.#prompt
    const tokens: TokenCount = {
      input: tokensOf(messagesJson),
      output: this.#options.world.random.whole(1, MAX_OUTPUT_TOKENS),
    }
    if (manner === 'paid error once' && this.#counts.paidErrors === 0) {
      this.#counts.paidErrors += 1
      return upstreamError({ message: 'its own upstream failed', status: 200, retryable: true, tokens })
    }
    if (manner === 'refuse') return { kind: 'refused', message: 'I decline.', status: 200, tokens }
    const isWrong = manner === 'wrong' || (manner.startsWith('wrong') && !this.#isRepair)
    const suffix = manner === 'unstorable' ? ` ${UNSTORABLE}` : ''
    const size = this.#options.ledger.plans.get(this.#tag)?.answerSize ?? 0
    const text = `answer to ${this.#tag} for ${account}${suffix} ${'y'.repeat(size)}`
    if (form.kind === 'text')
      return { kind: 'answer', text, tokens, ...(manner === 'cut off' && { truncated: true as const }) }
    const json = JSON.stringify({ text })
    if (manner === 'cut off') return { kind: 'answer', text: json.slice(0, -4), tokens, truncated: true }
    const wrong = form.kind === 'schema' ? JSON.stringify({ wrong: text }) : `{"wrong": ${text}`
    return { kind: 'answer', text: isWrong ? wrong : json, tokens }
  }

  #later(ms: number, reply: Reply): void {
    const { world, upstream, thread } = this.#options
    const label = `reply of ${upstream.name} to ${thread.name}`
    world.after(ms, label, () => (reply.kind === 'error' ? this.#fail(reply) : this.#end(reply)), thread)
  }

  #fail(error: UpstreamError): void {
    const isBlamed =
      error.timedOut ||
      error.tokens !== undefined ||
      Object.entries(FAILURES).some(([name, one]) => one === error && BLAMED.includes(name))
    if (!this.#isEnded) {
      if (isBlamed) this.#counts.blamed += 1
      this.#options.ledger.jobCalls.replied(this.#call, error, this.#knownMs)
    }
    this.#end(error)
  }

  get #counts(): CallCounts {
    return this.#options.ledger.callsOf(this.#prompt.account, this.#tag)
  }

  #end(reply: Reply): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#cancelTimeout()
    this.#signal.unlisten(this)
    this.#options.ledger.callsInProgress.delete(this.#known)
    this.#options.upstream.onCrash.delete(this.#onCrash)
    if (reply.kind !== 'error') this.#options.ledger.jobCalls.replied(this.#call, null, null)
    if (reply.tokens !== undefined) {
      const { input, output } = reply.tokens
      this.#counts.tokens += input + output
      this.#counts.answered.add(this.#options.thread.name)
    }
    this.#resolve(reply)
  }
}
