/**
 * A Parley that the tests of a suite share, because starting one costs more than most of these tests. Each test gets its own
 * account, and sees only the calls of its own jobs.
 *
 * ```ts
 * onEachStore(async () => {
 *   const enter = await shareStage()
 *   test('a completion', async () => {
 *     const { openai, models } = await enter(() => reply.text('Hi.'))
 * ```
 */
import { after } from 'node:test'
import type OpenAI from 'openai'
import type { ClientOptions } from 'openai'
import { type Stage, type StageOptions, startStage } from '../http/stage.ts'
import type { ModelServerForTests, Received, Script } from '../model-server.ts'
import { openaiOf } from './official-client.ts'

export interface SharedStage extends Pick<Stage, 'parley'> {
  /** Counts requests from the beginning of the test. */
  readonly models: Pick<ModelServerForTests, 'requests' | 'script' | 'completions' | 'received' | 'release'>
  readonly account: string
  readonly key: string
  readonly openai: OpenAI
}

/** Starts a stage for a suite. Its clock should stand still, because timers of earlier tests may be pending. */
export async function shareStage(options: StageOptions = {}) {
  const stage = await startStage({ after }, options)
  return shared(stage)
}

/** Returns a function that each test calls once, and which lets no call of an earlier test stall. */
export function shared({ parley, models }: Pick<Stage, 'parley' | 'models'>) {
  let accounts = 0
  return async (script?: Script, client: ClientOptions = {}): Promise<SharedStage> => {
    models.script = () => undefined
    models.release()
    while (models.running() > 0) await parley.get('/healthz')
    const account = `account-${++accounts}`
    const key = await parley.key('user_max', account)
    const own = callsSince(models)
    if (script) own.script = script
    return { parley, models: own, account, key, openai: openaiOf(parley, key, client) }
  }
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
