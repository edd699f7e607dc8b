/** Runs many jobs once, as a file or as native batches, while another account creates jobs one at a time. */
import { spawnSync } from 'node:child_process'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as passed } from 'node:timers/promises'
import { assertThat } from '../harness/invariants.ts'
import { startRig } from '../harness/load-run.ts'
import { MAIN, Parley } from '../harness/parley.ts'
import { Postgres } from '../harness/postgres.ts'
import { waitForCount } from '../harness/wait-for-count.ts'
import { jobOf, MODEL, words } from '../load/bodies.ts'
import { type Latencies, summarise } from '../load/percentiles.ts'

export type BatchfileStore = 'sqlite' | 'postgres'

export interface BatchfileRun {
  readonly store: BatchfileStore
  /**
   * With `file`, the jobs are lines of a file at /v1/batches. With `jobs`, they come in native batches with idempotency keys.
   */
  readonly side: 'file' | 'jobs'
  readonly lines: number
}

export interface Finished {
  /**
   * The measured time of a file ends with the last byte of its results. That of native batches ends when all jobs have
   * finished.
   */
  readonly perSecond: number
  /** CPU times are per line. */
  readonly cpuUs: number
  readonly databaseCpuUs: number
  /** The figure is the node's peak resident memory minus its memory before the run. */
  readonly moreMiB: number
  readonly quiet: Latencies
  readonly meanwhile: Latencies
}

const ANSWER_MS = 20
const CONCURRENCY = 256
const BYTES = 1024
/** The benchmark `ingest` uses the same number, so the results can be compared. */
const JOBS_EACH = 30
const CONNECTIONS = 16
const QUIET_CREATES = 200
const ENDED_WITHIN_MS = 1_200_000
const LOOK_MS = 100

export async function runBatchfile({ store, side, lines }: BatchfileRun): Promise<Finished> {
  const rig = await startRig({})
  await rig.model.ask({ kind: 'delay', ms: ANSWER_MS }, 'delayed')
  const postgres = store === 'postgres' ? await Postgres.start() : null
  const { modelPort } = rig
  const database = postgres?.url()
  const parley = await Parley.start({ modelPort, concurrency: CONCURRENCY, ...(database && { database }) })
  const creates = new Creates(parley, otherKey(parley, database))
  const quiet = await creates.during(() => creates.count(QUIET_CREATES))
  const work = async () => ({ cpuMs: parley.child.cpuMs(), databaseMs: (await postgres?.work())?.cpuMs ?? 0 })
  const idleBytes = parley.child.rssBytes()
  let mostBytes = 0
  const timer = setInterval(() => {
    mostBytes = Math.max(mostBytes, parley.child.rssBytes())
  }, LOOK_MS)
  const before = await work()
  const startMs = performance.now()
  const meanwhile = await creates.during(async () => {
    if (side === 'file') await runFile(parley, lines)
    else {
      await runJobs(parley, lines)
      // The model may have answered one create that `creates.made` does not include yet, so the count can be too high by one.
      const count = async (of: () => Promise<number>) => (await of()) - creates.made
      const answered = async () =>
        (await rig.model.ask<{ count: number }>({ kind: 'answered?' }, 'answered')).count
      await waitForCount(() => count(answered), lines, ENDED_WITHIN_MS, parley.child, 'jobs answered')
      await waitForCount(
        () => count(() => ended(parley, postgres)),
        lines,
        ENDED_WITHIN_MS,
        parley.child,
        'jobs ended',
      )
    }
  })
  const tookMs = performance.now() - startMs
  const after = await work()
  clearInterval(timer)
  await parley.child.stop()
  parley.dataFolder.remove()
  await postgres?.stop()
  await rig.stop()
  return {
    perSecond: (lines * 1000) / tookMs,
    cpuUs: ((after.cpuMs - before.cpuMs) * 1000) / lines,
    databaseCpuUs: ((after.databaseMs - before.databaseMs) * 1000) / lines,
    moreMiB: (mostBytes - idleBytes) / 2 ** 20,
    quiet,
    meanwhile,
  }
}

interface Resource {
  readonly id: string
  readonly status: string
  readonly output_file_id: string
}

async function runFile({ port, key }: Parley, lines: number): Promise<void> {
  const url = `http://127.0.0.1:${port}/v1`
  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = { ...init.headers, authorization: `Bearer ${key}` }
    const answer = await fetch(url + path, { ...init, headers })
    assertThat(answer.ok, `${path} was answered ${answer.status}`)
    return answer.text()
  }
  const read = async (path: string, init?: RequestInit): Promise<Resource> =>
    JSON.parse(await ask(path, init))
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob(Array.from({ length: lines }, (_, at) => lineOf(at))), 'lines.jsonl')
  const file = await read('/files', { method: 'POST', body: form })
  const wish = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' }
  const headers = { 'content-type': 'application/json' }
  let batch = await read('/batches', { method: 'POST', headers, body: JSON.stringify(wish) })
  while (batch.status !== 'completed') {
    await passed(LOOK_MS)
    batch = await read(`/batches/${batch.id}`)
  }
  const results = await ask(`/files/${batch.output_file_id}/content`)
  const count = results.trimEnd().split('\n').length
  assertThat(count === lines, `${count} of ${lines} lines have an answer`)
}

async function runJobs({ port, key }: Parley, jobs: number): Promise<void> {
  const starts = Array.from({ length: Math.ceil(jobs / JOBS_EACH) }, (_, at) => at * JOBS_EACH).values()
  const send = async () => {
    for (const start of starts) {
      const bodies = Array.from({ length: Math.min(JOBS_EACH, jobs - start) }, (_, at) =>
        jobOf(textOf(start + at)),
      )
      const answer = await fetch(`http://127.0.0.1:${port}/api/v1/messages/batches`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-api-key': key,
          'idempotency-key': `batch-${start}`,
        },
        body: `[${bodies.join(',')}]`,
      })
      assertThat(answer.status === 202, `a batch was answered ${answer.status}`)
      await answer.text()
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, send))
}

async function ended({ dataFolder }: Parley, postgres: Postgres | null): Promise<number> {
  const count = 'select count(*) as n from outcomes'
  if (postgres !== null) return postgres.number(count)
  const db = new DatabaseSync(dataFolder.database, { readOnly: true })
  const { n } = db.prepare(count).get() ?? {}
  db.close()
  return Number(n)
}

const textOf = (line: number) => `line ${line}: ${words(BYTES - 200)}`

function lineOf(at: number): string {
  const { messages } = JSON.parse(jobOf(textOf(at)))
  const body = { model: MODEL, messages }
  return `${JSON.stringify({ custom_id: `${at}`, method: 'POST', url: '/v1/chat/completions', body })}\n`
}

function otherKey({ dataFolder }: Parley, database: string | undefined): string {
  const args = [MAIN, 'keys', 'create', '--account', 'other', '--tier', 'user_max']
  const env = { ...process.env, DATABASE_URL: database ?? `sqlite:${dataFolder.database}` }
  return spawnSync(process.execPath, args, { cwd: dataFolder.folder, env, encoding: 'utf8' }).stdout.trim()
}

class Creates {
  readonly #parley: Parley
  readonly #key: string
  made = 0
  #tookMs: number[] = []

  constructor(parley: Parley, key: string) {
    this.#parley = parley
    this.#key = key
  }

  async during(work: () => Promise<void>): Promise<Latencies> {
    let isDone = false
    this.#tookMs = []
    const creating = this.#create(() => isDone)
    await work().finally(() => {
      isDone = true
    })
    await creating
    return summarise(this.#tookMs)
  }

  async count(count: number): Promise<void> {
    while (this.#tookMs.length < count) await passed(LOOK_MS)
  }

  async #create(isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      const startMs = performance.now()
      const answer = await fetch(`http://127.0.0.1:${this.#parley.port}/api/v1/messages`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': this.#key },
        body: jobOf(`create ${this.made++}`),
      })
      await answer.text()
      assertThat(answer.status === 200, `a create was answered ${answer.status}`)
      this.#tookMs.push(performance.now() - startMs)
    }
  }
}
