import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { newJob } from '../../test/store-contract/fixtures.ts'
import type { Answer } from '../job/answer.ts'
import { Stop } from '../job/stop.ts'
import type { Reply, RoutedReply } from '../upstreams/model-server.ts'
import { upstreamError } from '../upstreams/read-completion.ts'
import { earlierRunsJson, NO_RUNS, readEarlierRuns } from './earlier-runs.ts'
import { createExecuteJob } from './execute.ts'

const call = {
  target: 'a/m',
  kind: 'answer',
  status: 200,
  at_ms: 0,
  ms: 1,
  cost: 7,
  roles: 'native',
} as const

const parts: Parameters<typeof createExecuteJob>[0] = {
  store: { findResponse: () => null },
  router: { ask: () => Promise.reject(new Error('not asked')), close: async () => {} },
  answers: {
    read: async () => null,
    schemaFacts: () => ({ strict: false, isObject: true, ignored: ['/if'] }),
  },
  contextShifts: { check: async () => {} },
  clock: new FakeClock(),
  cacheKeyOf: () => null,
  maxAttempts: 3,
  patienceMs: 0,
  onError: () => {},
}

test('a job fails if its answer cannot be read because of a bug, and its call still counts', async () => {
  const tokens = { input: 10, output: 20 }
  const routed: RoutedReply = {
    reply: { kind: 'answer', text: '{}', tokens },
    target: 'a/m',
    calls: [call],
    tokens,
  }
  const bug = new TypeError('a bug')
  const errors: unknown[] = []
  const execute = createExecuteJob({
    ...parts,
    router: { ask: async () => routed, close: async () => {} },
    answers: { ...parts.answers, read: () => Promise.reject(bug) },
    isPriced: () => true,
    onError: (_message, error) => errors.push(error),
  })
  const job = { ...newJob(), attempt: 1, crashCount: 0, crashedAlone: false }
  const result = await execute(job, new Stop())
  assert.ok(result !== null && result.outcome !== null)
  const { outcome } = result
  assert.equal(outcome.status === 'failed' && outcome.error.code, 'model_error')
  const { input_tokens, output_tokens, cost, calls } = result.usage
  assert.deepEqual([input_tokens, output_tokens, cost, calls], [10, 20, 7, 1])
  assert.deepEqual(result.receipt.calls, [call])
  assert.deepEqual(errors, [bug])
})

test('the receipt of a job that ends without another run shows its format, and how many calls it leaves out', async () => {
  const responseFormatJson = '{"format":"json","schema":{"if":true}}'
  const job = { ...newJob(), responseFormatJson, attempt: 1, crashCount: 0, crashedAlone: false }
  const reply = { kind: 'refused', status: 200, message: 'no', tokens: { input: 1, output: 1 } } as const
  const times = { unavailableSinceMs: null, availableSinceMs: 0 }
  const wait = { route: 'a/m', tries: 0, ...times, trouble: null, isForRate: true } as const
  const routed: RoutedReply = { reply, target: 'a/m', calls: [call], tokens: reply.tokens, wait }
  const execute = createExecuteJob({ ...parts, router: { ask: async () => routed, close: async () => {} } })
  const earlierJson = earlierRunsJson({ ...NO_RUNS, calls: 60, records: Array(50).fill(call) })
  const waiting = await execute({ ...job, earlierJson }, new Stop())
  assert.ok(waiting?.outcome === null)
  const stop = new Stop()
  stop.now('deadline')
  const late = await execute({ ...job, attempt: 2, earlierJson: waiting.wait.earlierJson }, stop)
  assert.ok(late !== null && late.outcome !== null)
  const { calls, ...rest } = late.receipt
  assert.equal(calls.length, 50)
  assert.deepEqual(rest, { form: 'schema', strict: false, ignored: ['/if'], calls_omitted: 11 })
})

test('what calls used adds up: of a repair, of a run that had to wait, and of the run after it', async () => {
  const wrong: Answer = { ok: false, kind: 'wrong', errors: ['no'], raw: '[]' }
  const right: Answer = { ok: true, contentJson: '{}' }
  const tokens = { input: 10, output: 2, cached: 4 }
  const answered: RoutedReply = {
    reply: { kind: 'answer', text: '', tokens },
    target: 'a/m',
    calls: [call],
    tokens,
  }
  const times = { unavailableSinceMs: null, availableSinceMs: 0 }
  const wait = { route: 'a/m', tries: 0, ...times, trouble: null, isForRate: true } as const
  const refused: RoutedReply = {
    ...answered,
    reply: { kind: 'refused', status: 200, message: 'no', tokens },
    wait,
  }
  const usageOf = async (last: Answer) => {
    const [replies, answers] = [
      [answered, refused, answered],
      [wrong, last],
    ]
    const execute = createExecuteJob({
      ...parts,
      router: { ask: async () => replies.shift() ?? assert.fail('too many calls'), close: async () => {} },
      answers: { ...parts.answers, read: () => answers.shift() ?? assert.fail('too many answers') },
      isPriced: () => true,
    })
    const responseFormatJson = '{"format":"json"}'
    const job = { ...newJob(), responseFormatJson, attempt: 1, crashCount: 0, crashedAlone: false }
    const waiting = await execute(job, new Stop())
    assert.ok(waiting?.outcome === null)
    const result = await execute({ ...job, attempt: 2, earlierJson: waiting.wait.earlierJson }, new Stop())
    assert.ok(result !== null && result.outcome !== null)
    return result.usage
  }
  const used = {
    target: 'a/m',
    input_tokens: 30,
    output_tokens: 6,
    cached_input_tokens: 12,
    cost: 21,
    calls: 3,
    cache_hit: false,
  }
  assert.deepEqual(await usageOf(right), { ...used, repaired: true })
  assert.deepEqual(await usageOf(wrong), { ...used, repaired: false })
})

test('a stopping node leaves to the next one what a job has paid for, and the answer to repair', async () => {
  const wrong: Answer = { ok: false, kind: 'wrong', errors: ['no'], raw: '[]' }
  const runsAfter = async (...replies: readonly Reply[]) => {
    const stop = new Stop()
    const left = [...replies]
    const ask = async (): Promise<RoutedReply> => {
      const reply = left.shift() ?? assert.fail('too many calls')
      if (left.length === 0) stop.now('release')
      return { reply, target: 'a/m', calls: [call], tokens: reply.tokens ?? { input: 0, output: 0 } }
    }
    const execute = createExecuteJob({
      ...parts,
      router: { ask, close: async () => {} },
      answers: { ...parts.answers, read: () => wrong },
    })
    const responseFormatJson = '{"format":"json"}'
    const job = { ...newJob(), responseFormatJson, attempt: 1, crashCount: 0, crashedAlone: false }
    const result = await execute(job, stop)
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
