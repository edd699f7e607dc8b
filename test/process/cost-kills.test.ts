/**
 * Tests that costs match what the model server counted, to the millionth, however often the server crashes, and that a cap in
 * money is not exceeded. There are repairs, cached responses, cancelled jobs and deadlines. If a kill keeps an answer from
 * being stored, the costs leave out its call, and the job runs again.
 */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { chatCompletion, type Reply, startModelServer } from '../model-server.ts'
import { LONG } from '../support/long-form.ts'
import { type Database, onBothStores } from './both-stores.ts'
import { type Caller, idsOf } from './caller.ts'
import { allEnded, CrashRun } from './crash-run.ts'
import { Random } from './random.ts'
import { installation, type Server } from './server-process.ts'

const KILLS = LONG ? 30 : 3
const PRICE = { input: 1.5, cached_input: 0.3, output: 7.25 }
/** A few hundred jobs reach this cap (a few thousand in the long form), so that later creates are rejected. */
const CAP = LONG ? 1 : 0.08
const MAX_TOKENS = 40
onBothStores(
  (store) => `on ${store}, after ${KILLS} kills at a cap, jobs cost what the model server counted`,
  costsAreCounted,
  { real: true },
)

async function costsAreCounted(t: TestContext, database: Database): Promise<void> {
  const random = Random.of(t)
  const costs: number[] = []
  const models = await startModelServer({ keep: false }, t)
  const place = await installation(t, {
    upstream: models.baseUrl,
    ...database,
    settings: {
      currency: 'EUR',
      models: { priced: { price: PRICE, targets: [{ upstream: 'openai', model: 'm' }] } },
      tiers: { user_max: { reads_per_minute: 1_000_000_000, max_monthly_cost: CAP } },
      jobs: { concurrency: 24, max_attempts: 1000, lease_seconds: 2 },
    },
  })
  const met = { rejected: 0, cancelled: 0 }
  const run = new CrashRun({
    place,
    random,
    kills: KILLS,
    callers: 8,
    mostEvents: LONG ? 500 : 300,
    ask: async (caller, name) => {
      const contents = Array.from({ length: 1 + random.below(8) }, (_, at) => `${name}, job ${at}`)
      // A tenth of the requests repeat earlier ones, and get a cached response if there is one.
      if (random.below(10) === 0) contents.fill('the same again')
      const reply = await caller.batch(contents, () => jobFields(random))
      if (reply.status === 403) met.rejected += 1
      else assert.equal(reply.status, 202, reply.text)
      const [first] = idsOf(reply)
      if (first === undefined || random.below(3) > 0) return
      const cancelled = await caller.send(`/api/v1/messages/${first}/cancel`, {})
      if (cancelled.status === 200) met.cancelled += 1
    },
    onCalm: () => {},
  })
  models.script = () => {
    run.event()
    return countedReply(costs, random)
  }
  const { server, key } = await run.run()
  await allEnded(server.url)
  const caller = server.caller(key)
  // Each run must reach the cap, so this uses up the rest.
  for (const size of [20, 1]) {
    for (let status = 202, at = 0; status === 202; at++) {
      const contents = Array.from({ length: size }, (_, index) => `the rest ${at} ${index}`)
      status = (await caller.batch(contents, () => ({ ...jobFields(random, 'text'), complete_within: 60 })))
        .status
    }
    await allEnded(server.url)
  }
  await allEnded(server.url)
  const sums = await assertCosts(caller, costs)
  await assertSums(server, caller, sums.total)
  assert.ok(sums.jobs >= 100, `only ${sums.jobs} jobs: too little load to prove anything`)
  t.diagnostic(
    `${JSON.stringify({ ...sums, ...met })}; ${costs.length - sums.calls} calls were lost to kills`,
  )
}

function jobFields(random: Random, format = ['text', 'json'][random.below(2)]): object {
  return {
    model: 'priced',
    response_format: format === 'text' ? { format } : { format, schema: { type: 'object' } },
    options: { max_tokens: MAX_TOKENS },
    ...(random.below(8) === 0 && { complete_within: 1 }),
  }
}

/**
 * The number of tokens is random, within what the job reserved. The answer lists its calls, including the one before a repair.
 * Half of the JSON answers are wrong at first.
 */
function countedReply(costs: number[], random: Random): Reply {
  return ({ body }, response) => {
    const call = costs.length
    const [input, cached, output] = [20 + random.below(20), random.below(20), 1 + random.below(MAX_TOKENS)]
    const hundredths =
      100 * ((input - cached) * PRICE.input + cached * PRICE.cached_input + output * PRICE.output)
    costs.push(Math.floor((Math.round(hundredths) + 50) / 100))
    const wrong = body.messages.find(({ role }) => role === 'assistant')
    const calls = [...(wrong ? JSON.parse(String(wrong.content)) : []), call]
    const isJson = body.response_format !== undefined
    const isWrong = isJson && !wrong && random.below(2) === 0
    const content = JSON.stringify(isJson && !isWrong ? { calls } : calls)
    const usage = {
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: input + output,
      prompt_tokens_details: { cached_tokens: cached },
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ ...chatCompletion(body, { content }), usage }))
  }
}

interface UsedJob {
  readonly job_id: string
  readonly status: string
  readonly result: { readonly response_content: unknown } | null
  readonly error: { readonly code: string } | null
  readonly usage: { readonly cost: number; readonly input_tokens: number; readonly cache_hit: boolean }
}

/** Asserts that each completed job cost as much as its calls, and that each other job cost as much as its known calls. */
async function assertCosts(caller: Caller, costs: readonly number[]) {
  const sums = { jobs: 0, calls: 0, cacheHits: 0, repaired: 0, total: 0 }
  for (let before: string | null | undefined = ''; before !== null; ) {
    const reply = await caller.send(`/api/v1/messages?limit=100${before ? `&after=${before}` : ''}`)
    const { jobs, next } = reply.body.data as unknown as { jobs: { job_id: string }[]; next: string | null }
    before = next
    const ids = jobs.map(({ job_id }) => job_id).join(',')
    const read = ids === '' ? null : await caller.send(`/api/v1/messages?ids=${ids}&include=usage`)
    const found = read === null ? [] : (read.body.data as unknown as { jobs: UsedJob[] }).jobs
    for (const { status, result, error, usage } of found) {
      assert.equal(typeof usage.cost, 'number', `${status} ${error?.code}`)
      sums.jobs += 1
      sums.total += usage.cost
      if (usage.cache_hit) {
        sums.cacheHits += 1
        assert.equal(usage.cost, 0)
      } else if (status === 'completed') {
        const content = result?.response_content
        const calls: number[] =
          typeof content === 'string' ? JSON.parse(content) : (content as { calls: number[] }).calls
        assert.equal(
          usage.cost,
          calls.reduce((sum, call) => sum + (costs[call] ?? Number.NaN), 0),
        )
        sums.calls += calls.length
        if (calls.length > 1) sums.repaired += 1
      } else {
        assert.match(String(error?.code), /^(cancelled|deadline_exceeded)$/)
        if (error?.code === 'cancelled') assert.equal(usage.cost % 1, 0)
      }
    }
  }
  return sums
}

async function assertSums(server: Server, caller: Caller, total: number): Promise<void> {
  const me = (await caller.send('/api/v1/me')).body.data as unknown as {
    usage: { cost: number }
    reserved_cost: number
  }
  assert.equal(me.usage.cost, total)
  assert.equal(me.reserved_cost, 0)
  assert.ok(total <= CAP * 1_000_000, `${total} at ${server.url}`)
}
