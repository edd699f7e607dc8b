import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { newJob } from '../../test/store-contract/fixtures.ts'
import type { Answer } from '../job/answer.ts'
import { Stop } from '../job/stop.ts'
import type { Reply, RoutedReply } from '../upstreams/model-server.ts'
import { upstreamError } from '../upstreams/read-completion.ts'
import { createExecuteJob } from './execute.ts'
import { earlierRunsJson, NO_RUNS, readEarlierRuns } from './execution-result.ts'

const call = {
  target: 'a/m',
  kind: 'answer',
  status: 200,
  at_ms: 0,
  ms: 1,
  cost: 7,
  roles: 'native',
} as const
const tokens = { input: 10, output: 2, cached: 4 }
const wrong: Answer = { ok: false, kind: 'wrong', errors: ['no'], raw: '[]' }

const routed = (reply: Reply): RoutedReply => ({
  reply,
  target: 'a/m',
  calls: [call],
  tokens: reply.tokens ?? { input: 0, output: 0 },
})
const answered = routed({ kind: 'answer', text: '', tokens })
const times = { unavailableSinceMs: null, availableSinceMs: 0 }
/** The reply to a request that must wait for a rate. */
const waiting: RoutedReply = {
  ...routed({ kind: 'refused', status: 200, message: 'no', tokens }),
  wait: { route: 'a/m', tries: 0, ...times, trouble: null, isForRate: true },
}

interface Script {
  readonly replies: readonly RoutedReply[]
  /** What `answers.read` returns, in order. An error is thrown, like a bug. */
  readonly answers?: readonly (Answer | Error)[]
  readonly formatJson?: string
  readonly onLastCall?: () => void
}

/**
 * Returns functions that run a job whose calls get these replies. `end` expects an outcome, `wait` expects that the job must
 * wait, and `run` expects nothing.
 */
function start({ replies, answers = [], formatJson = '{"format":"json"}', onLastCall }: Script) {
  const [repliesLeft, answersLeft] = [[...replies], [...answers]]
  const errors: unknown[] = []
  const execute = createExecuteJob({
    store: { findResponse: () => null },
    router: {
      ask: async () => {
        const reply = repliesLeft.shift() ?? assert.fail('too many calls')
        if (repliesLeft.length === 0) onLastCall?.()
        return reply
      },
      close: async () => {},
    },
    answers: {
      read: () => {
        const answer = answersLeft.shift() ?? assert.fail('too many answers')
        return answer instanceof Error ? Promise.reject(answer) : answer
      },
      schemaFacts: () => ({ strict: false, isObject: true, ignored: ['/if'] }),
    },
    contextShifts: { check: async () => {} },
    clock: new FakeClock(),
    cacheKeyOf: () => null,
    maxAttempts: 3,
    patienceMs: 0,
    isPriced: () => true,
    onError: (_message, error) => errors.push(error),
  })
  const job = { ...newJob(), attempt: 1, crashCount: 0, crashedAlone: false, responseFormatJson: formatJson }
  const run = (over: object = {}, stop = new Stop()) => execute({ ...job, ...over }, stop)
  const end = async (...args: Parameters<typeof run>) => {
    const result = await run(...args)
    assert.ok(result !== null && result.outcome !== null)
    return result
  }
  /** Returns what the next run gets. */
  const wait = async (...args: Parameters<typeof run>) => {
    const result = await run(...args)
    assert.ok(result?.outcome === null)
    return { attempt: 2, earlierJson: result.wait.earlierJson }
  }
  return { run, end, wait, errors }
}

test('a job fails if its answer cannot be read because of a bug, and its call still counts', async () => {
  const bug = new TypeError('a bug')
  const { end, errors } = start({ replies: [answered], answers: [bug] })
  const { outcome, usage, receipt } = await end()
  assert.equal(outcome.status === 'failed' && outcome.error.code, 'model_error')
  const { input_tokens, output_tokens, cost, calls } = usage
  assert.deepEqual([input_tokens, output_tokens, cost, calls], [10, 2, 7, 1])
  assert.deepEqual(receipt.calls, [call])
  assert.deepEqual(errors, [bug])
})

test('the receipt of a job that ends without another run shows its format, and how many calls it leaves out', async () => {
  const { wait, end } = start({ replies: [waiting], formatJson: '{"format":"json","schema":{"if":true}}' })
  const earlierJson = earlierRunsJson({ ...NO_RUNS, calls: 60, records: Array(50).fill(call) })
  const stop = new Stop()
  const next = await wait({ earlierJson })
  stop.now('deadline')
  const { calls, ...rest } = (await end(next, stop)).receipt
  assert.equal(calls.length, 50)
  assert.deepEqual(rest, { form: 'schema', strict: false, ignored: ['/if'], calls_omitted: 11 })
})

test('what calls used adds up: of a repair, of a run that had to wait, and of the run after it', async () => {
  for (const [last, repaired] of [
    [{ ok: true, contentJson: '{}' }, true],
    [wrong, false],
  ] as const) {
    const { wait, end } = start({ replies: [answered, waiting, answered], answers: [wrong, last] })
    assert.deepEqual((await end(await wait())).usage, {
      target: 'a/m',
      input_tokens: 30,
      output_tokens: 6,
      cached_input_tokens: 12,
      cost: 21,
      calls: 3,
      cache_hit: false,
      repaired,
    })
  }
})

test('a stopping node leaves to the next one what a job has paid for, and the answer to repair', async () => {
  const runsAfter = async (...replies: readonly Reply[]) => {
    const stop = new Stop()
    const onLastCall = () => stop.now('release')
    const { run } = start({ replies: replies.map(routed), answers: [wrong], onLastCall })
    const result = await run({}, stop)
    if (result === null || result.outcome !== null) return result
    const { inputTokens, outputTokens, repair } = readEarlierRuns(result.wait.earlierJson)
    return [inputTokens, outputTokens, repair?.raw_text]
  }
  const aborted = upstreamError({ aborted: true, message: 'stopped' })
  const free = { kind: 'answer', text: '[]', tokens: { input: 0, output: 0 } } as const
  assert.equal(await runsAfter(aborted), null)
  assert.deepEqual(await runsAfter({ ...aborted, tokens: { input: 3, output: 0 } }), [3, 0, undefined])
  assert.deepEqual(await runsAfter({ ...aborted, tokens: { input: 0, output: 2 } }), [0, 2, undefined])
  assert.deepEqual(await runsAfter(free, aborted), [0, 0, '[]'])
})
