/** Starts a counted server, drives it through operations one at a time, and returns what each operation cost. */
import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { newIdempotencyKey } from '../../client/src/idempotency-key.ts'
import { type ModelServerForTests, reply, startModelServer } from '../model-server.ts'
import { type Lifetime, temporaryFolder } from '../parley.ts'
import { type Receiver, startReceiver } from '../receiver.ts'
import type { Begin, End, Ready, Work } from './counted-server.ts'

export interface Counts {
  readonly statements: number
  readonly commits: number
  readonly messages: number
  readonly files: number
  readonly functions: number
  readonly kilobytes: number
}

export interface Counted extends Counts {
  /** Each function is `FILE NAME@OFFSET`. */
  readonly names: readonly string[]
  /** The counts of each run. They differ, because the server may write concurrent work together or separately. */
  readonly samples: readonly Omit<Counts, 'kilobytes'>[]
}

export const NOW_MS = Date.UTC(2026, 0, 2, 3, 4, 5)
/** Compiling code at its first use allocates, so this many jobs run first. */
const WARM_UP = 20
/** Each operation is counted this often, and the lowest count is used, because a node's work once a second adds to some. */
const COUNTED = 15
const COUNTED_BATCHES = 8
/** Allocation is measured `ROWS` times. Each time, the operation runs this often in a row. */
const IN_A_ROW = 60
const ROWS = 2
const BATCH = 30
/** With this many slots, one account can run exactly one batch. The other slots are reserved for other accounts. */
const SLOTS = 32

/**
 * With these flags, Node never optimizes code, and compiles each function completely at its first call. So allocation hardly
 * depends on the machine.
 */
const ALLOCATES_THE_SAME = [
  '--no-opt',
  '--no-maglev',
  '--no-sparkplug',
  '--no-lazy-feedback-allocation',
  '--no-flush-bytecode',
]
const SERVER = fileURLToPath(new URL('./counted-server.ts', import.meta.url))
const PRELOADED = new URL('./count-statements.ts', import.meta.url).href

interface Operation {
  readonly before?: (count: number) => Promise<unknown>
  readonly one: (number: number) => Promise<unknown>
  /** Runs after each `one`. Its statements, commits and messages do not count, but its allocation does. */
  readonly end?: () => Promise<unknown>
  readonly inProgress?: number
  /** Operations with many jobs replace `WARM_UP`, `COUNTED` and `IN_A_ROW` by smaller numbers. */
  readonly warmUp?: number
  readonly counted?: number
  readonly inARow?: number
  readonly after?: () => Promise<void>
}

export class Counting {
  readonly #server: ChildProcess
  readonly #ready: Ready
  readonly #models: ModelServerForTests
  readonly #receiver: Receiver
  #jobId = ''
  #from = 0

  private constructor(
    server: ChildProcess,
    ready: Ready,
    { models, receiver }: { readonly models: ModelServerForTests; readonly receiver: Receiver },
  ) {
    this.#server = server
    this.#ready = ready
    this.#models = models
    this.#receiver = receiver
  }

  /**
   * The server stops with `t`.
   * @param database returns the address of an empty database for a server with this folder
   */
  static async start(t: Lifetime, database: (folder: string) => Promise<string>): Promise<Counting> {
    const [models, receiver, folder] = await Promise.all([
      startModelServer(),
      startReceiver(),
      temporaryFolder(t),
    ])
    const file = join(folder, 'parley.config.json')
    const settings = {
      tiers: { user_max: { reads_per_minute: 1_000_000 } },
      jobs: { concurrency: SLOTS },
      // For ten minutes after its start, a server looks for an earlier job of each request below /v1. That look-up must not
      // count.
      v1: { rejoin_seconds: 0 },
      callbacks: { allow_networks: ['127.0.0.0/8'] },
    }
    await writeFile(file, JSON.stringify(settings))
    const server = fork(SERVER, [file], {
      execArgv: [...ALLOCATES_THE_SAME, '--import', PRELOADED],
      env: {
        PATH: process.env.PATH,
        DATABASE_URL: await database(folder),
        PORT: '0',
        OPENAI_BASE_URL: models.baseUrl,
        OPENAI_MAX_CONCURRENCY: '256',
      },
    })
    t.after(async () => {
      const exited = once(server, 'exit')
      server.disconnect()
      await exited
      await Promise.all([models.close(), receiver.close()])
    })
    const ready = await answerOf<Ready>(server)
    return new Counting(server, ready, { models, receiver })
  }

  /**
   * Counts all operations, by name.
   * @param countsBytes if false, allocation is 0
   */
  async all(countsBytes = true): Promise<Readonly<Record<string, Counted>>> {
    const counts: Record<string, Counted> = {}
    for (const [name, operation] of Object.entries(this.#operations())) {
      counts[name] = await this.#count(operation, countsBytes ? ROWS : 0)
    }
    return counts
  }

  #operations(): Readonly<Record<string, Operation>> {
    const batch = (key: () => string | null): Operation => ({
      before: async () => this.#stall(),
      one: (number) => this.#batch(number, key()),
      end: async () => this.#models.release(),
      inProgress: BATCH,
      warmUp: 2,
      counted: COUNTED_BATCHES,
      inARow: 4,
      after: async () => this.#unstall(),
    })
    return {
      'a single create with a key': { one: (number) => this.#post('', jobOf(number), newIdempotencyKey()) },
      'a cached answer with a key': { one: () => this.#post('', jobOf(-3), newIdempotencyKey()) },
      'a batch of 30 with a key': batch(() => `${newIdempotencyKey()}.0`),
      'a single create': { one: (number) => this.#post('', jobOf(number)) },
      'a chat completion': { one: (number) => this.#chat(number) },
      'a cached answer': { one: () => this.#post('', jobOf(-1)) },
      'a batch of 30': batch(() => null),
      'a read': { before: () => this.#post('', jobOf(-2)), one: () => this.#read() },
      'a drained job': {
        before: (count) => this.#queue(count),
        one: () => this.#drainOne(),
        inProgress: BATCH,
        after: async () => this.#unstall(),
      },
      'a job with a callback': {
        before: async () => this.#stall(),
        one: (number) => this.#answerOnceAccepted(this.#jobWithCallback(number)),
        after: async () => this.#unstall(),
      },
    }
  }

  async #count(operation: Operation, rowCount: number): Promise<Counted> {
    const { before, one, end, inProgress = 0, after } = operation
    const { warmUp = WARM_UP, counted = COUNTED, inARow = IN_A_ROW } = operation
    const total = warmUp + counted + rowCount * inARow
    await before?.(total)
    const numbers = count(this.#from)
    this.#from += total
    const whole = async (times: number) => {
      for (let done = 0; done < times; done++) {
        await one(numbers.next().value)
        await end?.()
      }
    }
    const stays = end ? 0 : inProgress
    await this.#workOf(false, [stays, stays], () => whole(warmUp))
    const works: Work[] = []
    for (let round = 0; round < counted; round++) {
      works.push(await this.#workOf(true, [stays, inProgress], () => one(numbers.next().value)))
      await end?.()
    }
    const rows: Work[] = []
    for (let row = 0; row < rowCount; row++) {
      rows.push(await this.#workOf(false, [stays, stays], () => whole(inARow)))
    }
    await after?.()
    const least = (of: (work: Work) => number) => Math.min(...works.map(of))
    const functions = least((work) => work.functions.length)
    const names = works.find((work) => work.functions.length === functions)?.functions ?? []
    return {
      ...withFiles({
        statements: least((work) => work.statements),
        commits: least((work) => work.commits),
        messages: least((work) => work.messages),
        functions: names,
      }),
      // Compiling code also allocates, so the row with the least allocation counts.
      kilobytes:
        rows.length === 0
          ? 0
          : Math.round(Math.min(...rows.map(({ allocatedBytes }) => allocatedBytes)) / inARow / 1000),
      names,
      samples: works.map(withFiles),
    }
  }

  /** @param key the Idempotency-Key. The published client sends one with each create */
  async #post(path: string, body: unknown, key: string | null = null): Promise<readonly string[]> {
    const answer = await request(`${this.#ready.url}/api/v1/messages${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-api-key': this.#ready.key,
        ...(key !== null && { 'idempotency-key': key }),
      },
      body: JSON.stringify(body),
    })
    const { data } = (await answer.body.json()) as { data: { job_id?: string; job_ids?: readonly string[] } }
    assert.ok(answer.statusCode < 300, `${answer.statusCode}`)
    const ids = data.job_ids ?? [data.job_id ?? '']
    this.#jobId = ids[0] ?? ''
    return ids
  }

  async #chat(number: number): Promise<void> {
    const { model, messages } = jobOf(number)
    const answer = await request(`${this.#ready.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${this.#ready.key}` },
      body: JSON.stringify({ model, messages }),
    })
    await answer.body.dump()
    assert.equal(answer.statusCode, 200)
  }

  async #batch(number: number, key: string | null): Promise<void> {
    const called = this.#models.requests.length
    await this.#post(
      '/batches',
      Array.from({ length: BATCH }, (_, at) => jobOf(number * BATCH + at)),
      key,
    )
    await this.#models.received(called + BATCH)
  }

  async #read(): Promise<void> {
    const answer = await request(`${this.#ready.url}/api/v1/messages/${this.#jobId}`, {
      headers: { 'x-api-key': this.#ready.key },
    })
    await answer.body.dump()
    assert.equal(answer.statusCode, 200)
  }

  async #queue(count: number): Promise<void> {
    this.#stall()
    const called = this.#models.requests.length
    const jobs = Array.from({ length: BATCH + count }, (_, at) => jobOf(-1000 - at))
    for (let from = 0; from < jobs.length; from += BATCH)
      await this.#post('/batches', jobs.slice(from, from + BATCH))
    await this.#models.received(called + BATCH)
  }

  /** Ends the job that has run longest. The first queued job takes its slot. */
  async #drainOne(): Promise<void> {
    const called = this.#models.requests.length
    this.#models.releaseNext()
    await this.#models.received(called + 1)
  }

  /**
   * The model answers only after the response to the create. Otherwise, timing would decide whether the server writes an
   * outcome together with its job.
   */
  async #answerOnceAccepted(job: unknown): Promise<void> {
    const called = this.#models.requests.length
    await this.#post('/batches', [job])
    await this.#models.received(called + 1)
    this.#models.releaseNext()
  }

  #stall(): void {
    this.#models.script = () => reply.stall()
  }

  #unstall(): void {
    this.#models.script = () => undefined
    this.#models.release()
  }

  #jobWithCallback(number: number) {
    return { ...jobOf(number), callback: { callback_url: this.#receiver.url } }
  }

  async #workOf(
    functions: boolean,
    inProgress: readonly [before: number, after: number],
    work: () => Promise<unknown>,
  ): Promise<Work> {
    await this.#ask({ kind: 'begin', functions, inProgress: inProgress[0] })
    await work()
    return this.#ask({ kind: 'end', inProgress: inProgress[1] })
  }

  async #ask(message: Begin | End): Promise<Work> {
    const answered = answerOf<Work>(this.#server)
    this.#server.send(message)
    return answered
  }
}

function withFiles(work: Omit<Work, 'allocatedBytes'>): Omit<Counts, 'kilobytes'> {
  const { statements, commits, messages, functions } = work
  const files = new Set(functions.map((name) => name.split(' ')[0])).size
  return { statements, commits, messages, files, functions: functions.length }
}

async function answerOf<T>(server: ChildProcess): Promise<T> {
  const ended = new AbortController()
  try {
    const exit = once(server, 'exit', ended).then(() => {
      throw new Error('the counted server ended')
    })
    const [message] = (await Promise.race([once(server, 'message', ended), exit])) as [T]
    return message
  } finally {
    ended.abort()
  }
}

function* count(from: number): Generator<number, never> {
  for (let number = from; ; number++) yield number
}

function jobOf(number: number) {
  const content = `${number} `.padEnd(1000, 'All work is counted here. ')
  return { model: 'gpt-auto', response_format: { format: 'text' }, messages: [{ role: 'user', content }] }
}
