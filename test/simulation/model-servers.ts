/** Model servers, at the contract of the router: each upstream has its current fault, and each job its behavior. */
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
import type { CallCounts, CallInProgress, Ledger } from './ledger.ts'
import type { JobManner, UpstreamFault } from './plan.ts'
import { UNSTORABLE } from './store-connection.ts'
import type { SimulatedThread, World } from './world.ts'

export const CALL_TIMEOUT_MS = 20_000
/** How long the servers are overloaded for a job that is overloaded at its repair. */
const OVERLOADED_MS = 8000
/** How many calls a server with the fault `few at once` serves. */
const FEW = 2

/** An upstream, shared by all nodes. */
export interface Upstream {
  readonly name: string
  fault: UpstreamFault | null
  inProgress: number
}

export interface ServerOptions {
  readonly world: World
  readonly ledger: Ledger
  readonly upstream: Upstream
  readonly thread: SimulatedThread
  readonly clock: Clock
  /** Ends the process that sent the call. */
  readonly kill: () => void
}

const FAILURES: Readonly<Record<string, UpstreamError>> = {
  refused: upstreamError({
    message: 'refused',
    retryable: true,
    code: 'ECONNREFUSED',
    connection: 'connection',
  }),
  reset: upstreamError({ message: 'reset', retryable: true, code: 'ECONNRESET', connection: 'connection' }),
  '500': upstreamError({ message: 'internal error', retryable: true, status: 500 }),
  '503': upstreamError({ message: 'overloaded', retryable: true, status: 503 }),
  '429': upstreamError({ message: 'too many', retryable: true, status: 429, retryAfterMs: 2000 }),
  '401': upstreamError({ message: 'wrong key', retryable: false, status: 401 }),
  invalid: upstreamError({ message: 'no such parameter', status: 400 }),
}
/** Errors that may count against a job. */
const BLAMED = ['reset', '500', '401', 'invalid']

/** A node's connection to an upstream. */
export function simulatedServer(options: ServerOptions): ModelServer {
  const { world, upstream, thread } = options
  return {
    name: upstream.name,
    ask: (_model, prompt, _format, signal) => new ServedCall(options, prompt, signal).ended,
    requestFormat: (_model, { form }): RequestFormat =>
      form.kind === 'text' ? { roles: 'native' } : { roles: 'native', json_mode: 'simulated' },
    otherFormat: () => null,
    learnedRoles: () => null,
    check: () =>
      new Promise((resolve) => {
        const { fault } = upstream
        const trouble = fault === null ? null : (FAILURES[fault] ?? null)
        const answers = fault === 'hang' ? CALL_TIMEOUT_MS : world.random.next() * 50
        world.after(answers, `check of ${upstream.name}, ${thread.name}`, () => resolve(trouble), thread)
      }),
    close: async () => {},
  }
}

/** Tokens as the model servers of this world count them. */
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
  readonly #known: CallInProgress
  #isEnded = false

  constructor(options: ServerOptions, prompt: Prompt, signal: StopSignal) {
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
    ledger.callsOf(prompt.account, this.#tag).calls += 1
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
    if (upstream.fault === 'hang') return
    const failure =
      FAILURES[upstream.fault ?? ''] ?? FAILURES[manner === 'reset' && !isSecond ? 'reset' : manner]
    const isBusy = upstream.fault === 'few at once' && upstream.inProgress >= FEW
    const error = failure ?? (isBusy || this.#isOverloaded(manner, counts) ? FAILURES['503'] : undefined)
    if (error !== undefined) {
      this.#later(random.next() * 30, error)
      return
    }
    if (manner === 'kill') {
      world.after(random.next() * 100, `a job kills ${thread.name}`, kill)
      return
    }
    upstream.inProgress += 1
    const slow = upstream.fault === 'slow' ? 8 : 1
    // Some servers answer at once.
    const quickMs = random.chance(0.1) ? 0 : random.next() ** 3 * 2000
    const ms = manner === 'answer slowly' ? random.whole(2000, 18_000) : slow * quickMs
    world.after(ms, `answer of ${upstream.name} to ${this.#tag}`, () => {
      upstream.inProgress -= 1
      this.#later(random.next() * 3, this.#answer(manner))
    })
  }

  /** Whether the repair of the job is postponed. */
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
      output: this.#options.world.random.whole(1, 50),
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

  /** The reply reaches the process that sent the call. */
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
    if (!this.#isEnded && isBlamed) this.#counts.blamed += 1
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
    if (reply.tokens !== undefined) {
      const { input, output } = reply.tokens
      this.#counts.tokens += input + output
      this.#counts.answered.add(this.#options.thread.name)
    }
    this.#resolve(reply)
  }
}
