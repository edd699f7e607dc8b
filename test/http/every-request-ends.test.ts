/**
 * Tests that every accepted request ends, and that usage counts each call to the model server once. The test generates requests
 * from the OpenAPI document, with numbers in every spelling that JSON allows. The model server counts calls and tokens for the
 * comparison.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import fc from 'fast-check'
import { readSchema } from 'parley-json-schema'
import { reply, type Script, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, type Parley, startParley } from '../parley.ts'
import { type ReceivedRequest, startReceiver } from '../receiver.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { wellFormed } from '../support/random-schemas.ts'
import { numbersIn, spellings } from '../support/spelled-numbers.ts'
import { BATCHES, LOCAL_CALLBACKS, MESSAGES } from './caller.ts'
import { granted } from './expect.ts'
import { documentedRoutes } from './openapi/document.ts'
import { valid } from './openapi/requests.ts'
import { UNLIMITED_READS } from './stage.ts'

const REQUESTS = LONG ? 20_000 : 200
const AT_ONCE = 20
/** A job makes one call, and one more to repair a JSON answer. */
const MOST_CALLS = 2
const LEAST_DEADLINE_S = 3600

interface Element {
  callback?: { callback_url: string; callback_headers?: object; callback_payload?: unknown }
  complete_within?: number
}

interface CreateRequest {
  readonly path: string
  readonly jobs: number
  /** Each job with a callback has one payload, as spelled in the request. */
  readonly payloads: readonly string[]
  readonly text: string
}

onEachStore(() => {
  test(`2.1 ${REQUESTS} valid requests with numbers in any spelling: all end, and each call is counted once`, {
    timeout: LONG ? 3_600_000 : 240_000,
  }, async (t) => {
    const { parley, key, counted, receiver, seed } = await start(t)
    const jobIds: string[] = []
    const payloads: string[] = []
    const send = async ({ path, jobs, payloads: some, text }: CreateRequest) => {
      jobIds.push(...accepted(await parley.post(path, text, key), jobs, text))
      payloads.push(...some)
    }
    const group = fc.array(requests(await elementSchemas(parley), receiver.url), {
      minLength: AT_ONCE,
      maxLength: AT_ONCE,
    })
    const property = fc.asyncProperty(group, async (several) => {
      await Promise.all(several.map(send))
    })
    await fc.assert(property, { numRuns: Math.ceil(REQUESTS / AT_ONCE), seed, endOnFailure: true })

    // Jobs whose request was only accepted (202) must end, too.
    const open = async () => {
      const { waiting, assigned } = await parley.store.depth()
      return waiting + assigned
    }
    await eventually(open, (jobs) => jobs === 0, { signal: t.signal })
    for (let from = 0; from < jobIds.length; from += AT_ONCE) {
      const reads = jobIds.slice(from, from + AT_ONCE).map((id) => parley.get(`${MESSAGES}/${id}`, key))
      for (const read of await Promise.all(reads)) {
        assert.match(granted(read, 200).status, /^(completed|failed)$/)
      }
    }
    const { usage } = granted(await parley.get('/api/v1/me', key), 200)
    assert.equal(usage.jobs, jobIds.length)
    assert.deepEqual(
      [usage.calls, usage.input_tokens, usage.output_tokens],
      [counted.calls, counted.inputTokens, counted.outputTokens],
    )
    assert.ok(counted.mostForOneJob <= MOST_CALLS, `${counted.mostForOneJob} calls for one job`)
    assertDelivered(await receiver.received(payloads.length), payloads)
    t.diagnostic(
      `${jobIds.length} jobs, ${counted.calls} calls, ${usage.failed_jobs} failed, ${usage.cache_hits} cache hits, ${payloads.length} callbacks, seed ${seed}`,
    )
  })
})

async function start(t: TestContext) {
  const seed = Number(process.env.PARLEY_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
  const counted = { calls: 0, inputTokens: 0, outputTokens: 0, mostForOneJob: 0 }
  const models = await startModelServer({ keep: false, script: countingScript(counted, seed) }, t)
  const receiver = await startReceiver({}, t)
  const parley = await startParley(t, {
    upstream: models.baseUrl,
    settings: { tiers: UNLIMITED_READS, ...LOCAL_CALLBACKS },
  })
  return { parley, key: await parley.key(), counted, receiver, seed }
}

/** Answers are text or JSON, with token counts in any spelling. Some of the JSON violates its schema. */
function countingScript(
  counted: { calls: number; inputTokens: number; outputTokens: number; mostForOneJob: number },
  seed: number,
): Script {
  const answers = fc.sample(
    fc.record({
      content: fc.constantFrom('yes', '{}', '{"a":1.50}', 'null', '-0', '1e2', '[1,2.0]'),
      input: fc.nat(100_000),
      output: fc.nat(100_000),
      spell: spellings,
    }),
    { numRuns: 500, seed },
  )
  const callsOfJob = new Map<string, number>()
  return ({ body }, index) => {
    const { content = '', input = 0, output = 0, spell = String } = answers[index % answers.length] ?? {}
    // Every job has a different first user message, by which the script recognizes its repair call.
    const job = String(body.messages.find(({ role }) => role === 'user')?.content)
    const calls = (callsOfJob.get(job) ?? 0) + 1
    callsOfJob.set(job, calls)
    counted.mostForOneJob = Math.max(counted.mostForOneJob, calls)
    counted.calls += 1
    counted.inputTokens += input
    counted.outputTokens += output
    const usage = spell(JSON.stringify({ prompt_tokens: input, completion_tokens: output }))
    return reply.garbage(`{"choices":[{"message":${JSON.stringify({ content })}}],"usage":${usage}}`)
  }
}

interface ElementSchemas {
  readonly single: Answer['body']
  readonly batch: Answer['body']
}

async function elementSchemas(parley: Parley): Promise<ElementSchemas> {
  const routes = await documentedRoutes(parley)
  const schemaOf = (path: string) =>
    routes.find((route) => route.path === path && route.method === 'POST')?.body?.schema
  return { single: schemaOf(MESSAGES), batch: schemaOf(BATCHES).items }
}

/** Parley rejects some well-formed schemas, such as those with circular references. */
const answerSchema = wellFormed.filter((schema) => readSchema(schema).ok)

/** The document cannot express all rules, so model names, a user message, response schemas and addresses are filled in. */
function requests({ single, batch }: ElementSchemas, receiver: string): fc.Arbitrary<CreateRequest> {
  const elementOf = (schema: Answer['body']) =>
    fc
      .record({
        given: valid(schema) as fc.Arbitrary<Element>,
        model: fc.constantFrom('gpt-auto', 'gpt-5', 'gpt-5.2', 'gpt-5-mini'),
        format: fc.oneof(
          fc.constant({ format: 'text' }),
          fc.constant({ format: 'json' }),
          answerSchema.map((schema) => ({ format: 'json', schema })),
        ),
        id: fc.uuid(),
      })
      .map(({ given, model, format, id }) => {
        const { callback, complete_within: within, ...element } = given
        // On a busy machine, a shorter deadline could pass during a call, and the tokens of that call would be unknown.
        const deadline = within !== undefined && { complete_within: Math.max(within, LEAST_DEADLINE_S) }
        const own = callback && { ...callback, callback_url: receiver, callback_headers: { a: 'b' } }
        const messages = [{ role: 'user', content: id }]
        return {
          ...element,
          ...deadline,
          model,
          response_format: format,
          messages,
          ...(own && { callback: own }),
        }
      })
  const ofOne = elementOf(single).map((element) => ({ path: MESSAGES, body: element, elements: [] }))
  const ofMany = fc
    .array(elementOf(batch), { minLength: 1, maxLength: 4 })
    .map((elements) => ({ path: BATCHES, body: elements, elements }))
  return fc.tuple(fc.oneof(ofOne, ofMany), spellings).map(([{ path, body, elements }, spell]) => {
    const text = spell(JSON.stringify(body))
    return { path, text, jobs: elements.length || 1, payloads: payloadsIn(text, elements) }
  })
}

/** Cuts the payloads from the JSON text, because parsed numbers would lose their spelling. */
function payloadsIn(text: string, elements: readonly Element[]): string[] {
  const withCallback = elements.filter(({ callback }) => callback !== undefined).length
  const found = text.split('"callback_payload":').slice(1)
  const spelled = found.map((rest) => rest.slice(0, endOfObject(rest)))
  return [...spelled, ...Array.from({ length: withCallback - spelled.length }, () => '{}')]
}

function endOfObject(text: string): number {
  let depth = 0
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}]/gs)) {
    if (token === '{') depth += 1
    if (token === '}') depth -= 1
    if (depth === 0) return index + 1
  }
  return text.length
}

function accepted(answer: Answer, jobs: number, text: string): string[] {
  assert.ok([200, 202].includes(answer.status), `${answer.status} ${answer.text} for ${text}`)
  const { job_id: one, job_ids: many = [one] } = answer.body.data
  assert.equal(many.length, jobs)
  return many
}

/**
 * Asserts that every payload arrived at least once, with each number as spelled. Payloads may arrive in any order, and so may
 * their keys.
 */
function assertDelivered(received: readonly ReceivedRequest[], payloads: readonly string[]): void {
  const numbersOf = (payload: string) => numbersIn(payload).toSorted().join(' ')
  const arrived = received.map(({ body }) => numbersOf(body.slice(body.indexOf('"callback_payload":'))))
  const missing = new Set(payloads.map(numbersOf)).difference(new Set(arrived))
  assert.deepEqual([...missing], [])
}
