/**
 * Shares a Parley among the tests of a suite, because starting one costs more than most of these tests. Each test gets its own
 * account, and sees only the calls of its own jobs.
 *
 * ```ts
 * onEachStore(() => {
 *   const enter = shareStage()
 *   test('a completion', async () => {
 *     const { openai, models } = await enter(() => reply.text('Hi.'))
 * ```
 */
import type OpenAI from 'openai'
import type { ClientOptions } from 'openai'
import { type Stage, type StageOptions, startStage } from '../http/stage.ts'
import type { ModelServerForTests, Received, Script } from '../model-server.ts'
import type { Parley } from '../parley.ts'
import { onFirstUse } from '../support/on-first-use.ts'
import { openaiOf } from './official-client.ts'

export interface SharedStage extends Pick<Stage, 'parley'> {
  readonly models: Pick<ModelServerForTests, 'requests' | 'script' | 'completions' | 'received' | 'release'>
  readonly account: string
  readonly key: string
  readonly openai: OpenAI
}

/** The clock should stand still, because timers of earlier tests may be pending. */
export function shareStage(options: StageOptions = {}) {
  return shared(onFirstUse((t) => startStage(t, options)))
}

/** Each test calls the returned function once. It ends the jobs of earlier tests, whose calls could arrive during this test. */
export function shared(start: () => Promise<Pick<Stage, 'parley' | 'models'>>) {
  let accounts = 0
  return async (script?: Script, client: ClientOptions = {}): Promise<SharedStage> => {
    const { parley, models } = await start()
    models.script = () => undefined
    models.release()
    while (await hasOpenJobs(parley));
    const account = `account-${++accounts}`
    const key = await parley.key('user_max', account)
    const own = callsSince(models)
    if (script) own.script = script
    return { parley, models: own, account, key, openai: openaiOf(parley, key, client) }
  }
}

async function hasOpenJobs({ store }: Parley): Promise<boolean> {
  const accounts = await store.listAccounts({ limit: 1000, nowMs: 0 })
  return accounts.some(({ quotaUse }) => quotaUse.openJobs > 0)
}

function callsSince(models: ModelServerForTests): SharedStage['models'] {
  const before = models.requests.length
  const isOwn = ({ index }: Received) => index >= before
  return {
    get requests() {
      return models.requests.filter(isOwn)
    },
    get script() {
      return models.script
    },
    set script(script) {
      models.script = (request, index) => script(request, index - before)
    },
    completions: () => models.completions().filter(isOwn),
    received: (count) => models.received(before + count),
    release: () => models.release(),
  }
}
