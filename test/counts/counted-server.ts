/**
 * Runs a server in a separate process and counts its work. `counting.ts` starts it and loads `count-statements.ts` into each of
 * its threads. The clock stands still, so apart from a node's work once a second in real time, nothing happens that a request
 * did not cause, and every write is made at once.
 *
 * The argument is the path of the configuration. The parent process sends `begin` and `end`. The answer to `end` is the work in
 * between, once all of it has ended.
 */
import { Session } from 'node:inspector/promises'
import { dirname, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { getHeapStatistics } from 'node:v8'
import { BroadcastChannel } from 'node:worker_threads'
import { issueKey } from '../../src/accounts/key.ts'
import { createService } from '../../src/app/create-service.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import { FakeClock } from '../fake-clock.ts'
import { CHANNEL, ownReport, type ThreadReport } from './count-statements.ts'

export interface Work {
  readonly statements: number
  readonly commits: number
  readonly messages: number
  /**
   * The functions belong to `src/` and ran on the main thread. Each is `FILE NAME@OFFSET`. The list is empty unless functions
   * were requested.
   */
  readonly functions: readonly string[]
  readonly allocatedBytes: number
}

export interface Begin {
  readonly kind: 'begin'
  /** Counting functions allocates memory, so a run that counts them cannot measure allocation. */
  readonly functions: boolean
  readonly inProgress: number
}

export interface End {
  readonly kind: 'end'
  readonly inProgress: number
}

export interface Ready {
  readonly url: string
  readonly key: string
}

const SRC = dirname(fileURLToPath(import.meta.resolve('../../src/main.ts')))
const QUIET_ROUNDS = 5

const clock = new FakeClock()
const service = await createService({
  configuration: loadConfiguration(process.env, process.argv[2] ?? ''),
  log: { error: report, warn: report, info: () => {}, debug: () => {}, flush: () => {} },
  clock,
  onFatal: (error) => {
    throw error
  },
})
const url = await service.listen()
const issued = await issueKey(service.store, {
  account: 'counted',
  tier: 'user_max',
  expiresDays: null,
  nowMs: clock.nowMs(),
})
if (issued.kind !== 'issued') throw new Error('the account has another tier')

function report(fields: object, message: string): void {
  process.stderr.write(`${message} ${JSON.stringify(fields)}\n`)
}

class Threads {
  readonly #channel = new BroadcastChannel(CHANNEL)
  readonly #reports = new Map<number, ThreadReport>()
  #heard = Promise.withResolvers<void>()

  constructor() {
    this.#channel.onmessage = (event) => {
      const report = (event as { data: ThreadReport }).data
      this.#reports.set(report.thread, report)
      this.#heard.resolve()
    }
  }

  async quiet(inProgress: number): Promise<ThreadReport> {
    let last = await this.#sum()
    for (let rounds = 0; rounds < QUIET_ROUNDS; ) {
      const next = await this.#sum()
      const same = next.running === inProgress && JSON.stringify(next) === JSON.stringify(last)
      rounds = same ? rounds + 1 : 0
      last = next
    }
    return last
  }

  async #sum(): Promise<ThreadReport> {
    if (storesInThread) {
      this.#heard = Promise.withResolvers()
      this.#channel.postMessage('report')
      await this.#heard.promise
    }
    // By then, the thread has processed the messages that had already arrived.
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
    const all = [ownReport(), ...this.#reports.values()]
    const sum = (of: (one: ThreadReport) => number) => all.reduce((total, one) => total + of(one), 0)
    return {
      thread: 0,
      statements: sum((one) => one.statements),
      commits: sum((one) => one.commits),
      messages: sum((one) => one.messages),
      running: sum((one) => one.running),
    }
  }
}

const storesInThread = process.env.DATABASE_URL?.startsWith('sqlite:') === true
const threads = new Threads()
const inspector = new Session()
inspector.connect()
await inspector.post('Profiler.enable')

let before: ThreadReport = await threads.quiet(0)
let allocatedBefore = 0
let countsFunctions = false

async function begin({ functions, inProgress }: Begin): Promise<void> {
  before = await threads.quiet(inProgress)
  // Starting and stopping take long, because they walk the heap, so they happen only when the kind of counting changes.
  if (functions && !countsFunctions) {
    await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  } else if (!functions && countsFunctions) {
    await inspector.post('Profiler.stopPreciseCoverage')
  }
  countsFunctions = functions
  if (functions) await inspector.post('Profiler.takePreciseCoverage')
  allocatedBefore = allocated()
}

async function end({ inProgress }: End): Promise<Work> {
  const after = await threads.quiet(inProgress)
  const allocatedBytes = allocated() - allocatedBefore
  let functions: readonly string[] = []
  if (countsFunctions) {
    functions = called((await inspector.post('Profiler.takePreciseCoverage')).result)
  }
  return {
    statements: after.statements - before.statements,
    commits: after.commits - before.commits,
    messages: after.messages - before.messages,
    functions,
    allocatedBytes,
  }
}

function allocated(): number {
  return getHeapStatistics().total_allocated_bytes
}

interface ScriptCoverage {
  readonly url: string
  readonly functions: readonly {
    readonly functionName: string
    readonly ranges: readonly { readonly startOffset: number; readonly count: number }[]
  }[]
}

/** The body of a module does not count as one of its functions. */
function called(scripts: readonly ScriptCoverage[]): readonly string[] {
  const root = pathToFileURL(`${SRC}/`).href
  return scripts
    .filter(({ url }) => url.startsWith(root))
    .flatMap(({ url, functions }) =>
      functions
        .filter(({ ranges: [range] }) => range && range.count > 0 && range.startOffset > 0)
        .map(({ functionName, ranges: [range] }) => {
          const name = functionName === '' ? '(anonymous)' : functionName
          return `${relative(SRC, fileURLToPath(url))} ${name}@${range?.startOffset}`
        }),
    )
    .toSorted()
}

process.on('message', (message: Begin | End) => {
  const done = message.kind === 'begin' ? begin(message) : end(message)
  void done.then((answer) => process.send?.(answer ?? {}))
})
process.on('disconnect', () => {
  void service.stop().then(() => process.exit())
})
process.send?.({ url, key: issued.key } satisfies Ready)
