/**
 * Tests that usage matches what the model server counted, to the last token, however often the server crashes: the sums are
 * stored together with the answers. Only answers that could not be stored because of a kill are missing; their jobs ran again,
 * and the model server has counted both calls.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { chatCompletion, type Reply, startModelServer } from '../model-server.ts'
import { LONG } from '../support/long-form.ts'
import { allEnded, CrashRun } from './crash-run.ts'
import { Random } from './random.ts'
import { outcomes, usageSums } from './rows.ts'
import { installation } from './server-process.ts'

const KILLS = LONG ? 50 : 5
const CONCURRENCY = 24

/** What the model server counted for an answer. */
interface Counted {
  readonly model: string
  readonly input: number
  readonly output: number
}

test(`after ${KILLS} kills under load usage equals what the model server counted`, {
  timeout: LONG ? 900_000 : 120_000,
}, async (t) => {
  const random = new Random()
  t.diagnostic(`PARLEY_TEST_SEED=${random.seed}`)
  const counted = new Map<string, Counted>()
  const models = await startModelServer({ keep: false }, t)
  const settings = { jobs: { concurrency: CONCURRENCY, max_attempts: 1000 }, cache: { enabled: false } }
  const place = await installation(t, { upstream: models.baseUrl, settings })
  const run = new CrashRun({
    place,
    random,
    kills: KILLS,
    callers: 8,
    mostEvents: 240,
    ask: (caller, name) => {
      const over = { model: random.below(2) === 0 ? 'gpt-5' : 'gpt-5-mini' }
      if (random.below(3) > 0) return caller.single(name, over)
      const contents = Array.from({ length: 1 + random.below(20) }, (_, index) => `${name}, job ${index}`)
      return caller.batch(contents, () => over)
    },
    onCalm: () => {},
  })
  models.script = () => {
    run.event()
    return countedReply(counted, random)
  }
  const { server } = await run.run()
  await allEnded(server.url)
  await server.stop()

  const expected = new Map<string, Record<string, number>>()
  for (const { model, content } of outcomes(place.database)) {
    const sums = expected.get(model) ?? { jobs: 0, failed: 0, calls: 0, input: 0, output: 0 }
    const tokens = counted.get(content)
    assert.ok(tokens, `the model server did not answer ${content}`)
    assert.equal(tokens.model, model)
    const { jobs = 0, failed = 0, calls = 0, input = 0, output = 0 } = sums
    expected.set(model, {
      jobs: jobs + 1,
      failed,
      calls: calls + 1,
      input: input + tokens.input,
      output: output + tokens.output,
    })
  }
  assert.deepEqual(usageSums(place.database), Object.fromEntries([...expected].sort()))
  const jobs = [...expected.values()].reduce((sum, { jobs = 0 }) => sum + jobs, 0)
  const lost = counted.size - jobs
  assert.ok(lost <= KILLS * CONCURRENCY, `${lost} answers were never stored`)
  assert.ok(jobs >= 10 * KILLS, `only ${jobs} jobs: too little load to prove anything`)
  t.diagnostic(`${jobs} jobs, each counted once; ${lost} more answers were lost to the kills and given again`)
})

/** Returns a unique answer with random numbers of tokens. */
function countedReply(counted: Map<string, Counted>, random: Random): Reply {
  return ({ body }, response) => {
    const content = `answer ${counted.size}`
    const [input, output] = [1 + random.below(100_000), 1 + random.below(10_000)]
    counted.set(content, { model: body.model, input, output })
    const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ ...chatCompletion(body, { content }), usage }))
  }
}
