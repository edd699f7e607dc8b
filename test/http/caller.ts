/**
 * Sends requests as an account, so that a test names only what matters to it:
 *
 *     const { caller, models } = await startScene(t)
 *     completed(await caller.create({ timeout: 30 }))         // a valid single create with a timeout
 *     const [id] = await caller.enqueue([job(), job()])       // a batch that must be accepted
 */
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { type ModelServerForTests, reply, type Script } from '../model-server.ts'
import { type Answer, job, type Lifetime, type Parley } from '../parley.ts'
import { onFirstUse } from '../support/on-first-use.ts'
import { enqueued, granted } from './expect.ts'
import { type Stage, type StageOptions, startStage } from './stage.ts'

export const MESSAGES = '/api/v1/messages'
export const BATCHES = '/api/v1/messages/batches'
export const ME = '/api/v1/me'
export const DAY_MS = 86_400_000
/** Callbacks may go to the test's receiver, which runs on this machine. */
export const LOCAL_CALLBACKS = { callbacks: { allow_networks: ['127.0.0.0/8'] } }

type Fields = Readonly<Record<string, unknown>>
type Headers = Record<string, string>
/** Tests take IDs from arrays, so they may be undefined. A request with `undefined` gets 404. */
type JobId = string | undefined

export interface Caller {
  readonly key: string
  readonly account: string
  /** `over` replaces fields of a valid job. */
  create(over?: Fields, headers?: Headers): Promise<Answer>
  ask(content: string, over?: Fields, headers?: Headers): Promise<Answer>
  batch(jobs: unknown, headers?: Headers): Promise<Answer>
  /** The batch must be accepted. Returns the IDs of its jobs. */
  enqueue(jobs: readonly object[], headers?: Headers): Promise<string[]>
  /** The batch has one valid job, whose fields `over` replaces. Returns the job's ID. */
  enqueueOne(over?: Fields, headers?: Headers): Promise<string>
  read(id: JobId, query?: string): Promise<Answer>
  ended(id: JobId): Promise<Answer>
  cancel(id: JobId): Promise<Answer>
  remove(id: JobId, query?: string): Promise<Answer>
  get(path: string): Promise<Answer>
  post(path: string, body: unknown, headers?: Headers): Promise<Answer>
  jobIds(): Promise<string[]>
  me(): Promise<Answer['body']>
  /** Returns a caller of the same account and key at another node. */
  at(parley: Parley): Caller
}

/** Creates a key of the account, which is named after the tier unless `account` is passed. */
export async function callerOf(parley: Parley, tier = 'user_max', account = tier): Promise<Caller> {
  return callerBy(parley, account, await parley.key(tier, account))
}

function callerBy(parley: Parley, account: string, key: string): Caller {
  const get = (path: string) => parley.get(path, key)
  const post = (path: string, body: unknown, headers?: Headers) => parley.post(path, body, key, headers)
  const send = (method: string, path: string) =>
    parley.request(`${MESSAGES}/${path}`, { method, headers: { 'x-api-key': key } })
  const enqueue = async (jobs: readonly object[], headers?: Headers) =>
    enqueued(await post(BATCHES, jobs, headers), jobs.length)
  return {
    key,
    account,
    create: (over, headers) => post(MESSAGES, job(over), headers),
    ask: (content, over, headers) => post(MESSAGES, says(content, over), headers),
    batch: (jobs, headers) => post(BATCHES, jobs, headers),
    enqueue,
    enqueueOne: async (over, headers) => String((await enqueue([job(over)], headers))[0]),
    read: (id, query = '') => get(`${MESSAGES}/${id}${query}`),
    ended: (id) => parley.ended(String(id), key),
    cancel: (id) => send('POST', `${id}/cancel`),
    remove: (id, query = '') => send('DELETE', `${id}${query}`),
    get,
    post,
    jobIds: async () => idsOf(granted(await get(MESSAGES), 200)),
    me: async () => granted(await get(ME), 200),
    at: (other) => callerBy(other, account, key),
  }
}

export const says = (content: string, over: Fields = {}) =>
  job({ messages: [{ role: 'user', content }], ...over })

export const idOf = (answer: Answer): string => granted(answer, 200).job_id
export const idsOf = ({ jobs }: Answer['body']): string[] =>
  jobs.map(({ job_id }: { job_id: string }) => job_id)

type Models = Pick<
  ModelServerForTests,
  'script' | 'requests' | 'completions' | 'received' | 'running' | 'release'
>

export interface Scene extends Omit<Stage, 'models'> {
  readonly models: Models
  readonly caller: Caller
}

export interface SceneOptions extends StageOptions {
  readonly tier?: string
  readonly account?: string
}

export async function startScene(t: Lifetime, options: SceneOptions = {}): Promise<Stage & Scene> {
  const stage = await startStage(t, options)
  return { ...stage, caller: await callerOf(stage.parley, options.tier, options.account) }
}

/**
 * Creates a job whose call the model server answers only when released, and waits for that call. The job has its own message,
 * so that it is not answered from the cache.
 */
export async function runningJob({ models, caller }: Pick<Scene, 'models' | 'caller'>, over: Fields = {}) {
  models.script = () => reply.stall()
  const calls = models.requests.length
  const id = await caller.enqueueOne({ messages: [{ role: 'user', content: randomUUID() }], ...over })
  await models.received(calls + 1)
  return id
}

const LOOK_MS = 500
let accounts = 0

/**
 * Starts a stage that the tests of a suite share. The returned function begins a test with its own account and script, and
 * hides the requests of earlier tests. The tests must not depend on metrics, and must leave no model server unavailable.
 */
export function shareStage(options: StageOptions = {}) {
  const start = onFirstUse((t) => startStage(t, options))
  return async (t: Lifetime, script: Script = () => undefined, tier = 'user_max'): Promise<Scene> => {
    const { parley, models, clock } = await start()
    t.after(async () => {
      models.script = () => undefined
      models.release()
      // After this time, the node knows which of its jobs were cancelled in the database.
      clock.advance(LOOK_MS)
      // Jobs of this test must not call the model server during the next one.
      for (let open = 1; open > 0; ) {
        const { waiting, assigned } = await parley.store.depth()
        open = waiting + assigned
        // SQLite answers in the same turn of the event loop. Without this pause, Parley would get no turn.
        await setImmediate()
      }
    })
    const own = since(models)
    own.script = script
    return { parley, models: own, clock, caller: await callerOf(parley, tier, `account-${++accounts}`) }
  }
}

/** Hides the requests of earlier tests. */
function since(models: ModelServerForTests): Models {
  const before = models.requests.length
  const requests = () => models.requests.slice(before)
  return {
    get requests() {
      return requests()
    },
    get script() {
      return models.script
    },
    set script(script) {
      models.script = (request, index) => script(request, index - before)
    },
    completions: () => requests().filter(({ method }) => method === 'POST'),
    received: (count) => models.received(before + count),
    running: () => models.running(),
    release: () => models.release(),
  }
}
