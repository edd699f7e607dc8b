import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { checkAnswer, readSchema } from 'parley-json-schema'
import { FakeClock } from '../../test/fake-clock.ts'
import { ask as askOnce, isError, never, prompt, promptOf } from '../../test/support/openai-client-setup.ts'
import type { Message, SchemaObject } from '../job/job.ts'
import { Stop } from '../job/stop.ts'
import type { AnswerForm, Reply } from './model-server.ts'
import { BAD_JSON, ECHOED_CHARACTERS, MAX_DELAY_MS, Simulator } from './simulator.ts'

const JSON_FORM: AnswerForm = { kind: 'json' }
const user = (content: string): Message => ({ role: 'user', content })
const schemaForm = (schema: SchemaObject): AnswerForm => ({
  kind: 'schema',
  schemaJson: JSON.stringify(schema),
  strict: false,
  isObject: false,
})

/** Plain texts are messages of the user. */
async function ask(messages: readonly (string | Message)[], form?: AnswerForm): Promise<Reply> {
  const clock = new FakeClock()
  const sent = promptOf(
    messages.map((one) => (typeof one === 'string' ? user(one) : one)),
    form,
  )
  const reply = await askOnce(new Simulator(clock), 'gpt-5', sent, never)
  assert.deepEqual(clock.pending(), [])
  return reply
}

async function textOf(...asked: Parameters<typeof ask>): Promise<string> {
  const reply = await ask(...asked)
  assert.ok(reply.kind === 'answer')
  return reply.text
}

describe('the simulator', () => {
  it('echoes the last user message in a sentence that says it is simulated', async () => {
    const text = await textOf(['first', 'How are you?', { role: 'system', content: 'later' }])
    assert.equal(text, 'This is a simulated answer; the last message was: "How are you?"')
  })

  it('counts tokens plausibly', async () => {
    const reply = await ask(['x'.repeat(400)])
    assert.ok(reply.kind === 'answer')
    assert.deepEqual(reply.tokens, { input: 104, output: Math.ceil(reply.text.length / 4) })
  })

  it('truncates a long echo, never within a surrogate pair', async () => {
    const text = await textOf([`a${'\u{1F600}'.repeat(ECHOED_CHARACTERS)}`])
    assert.ok(text.length < ECHOED_CHARACTERS + 100)
    assert.ok(text.isWellFormed() && !text.includes('\uFFFD'))
  })

  it('answers json without a schema with an object', async () => {
    const answer: unknown = JSON.parse(await textOf(['Hi "there"'], JSON_FORM))
    assert.deepEqual(answer, { simulated: true, last_message: 'Hi "there"' })
  })

  it('reports simulated JSON and native roles as its request format', () => {
    const formatOf = (form?: AnswerForm) =>
      new Simulator(new FakeClock()).requestFormat('m', promptOf([], form))
    assert.deepEqual(formatOf(), { roles: 'native' })
    assert.deepEqual(formatOf(JSON_FORM), { roles: 'native', json_mode: 'simulated' })
  })

  it('makes an example for a schema', async () => {
    const schema: SchemaObject = {
      type: 'object',
      properties: {
        name: { type: 'string', minLength: 2 },
        age: { type: 'integer', minimum: 18 },
        tags: { type: 'array', items: { enum: ['a', 'b'] }, minItems: 2 },
      },
      required: ['name', 'age', 'tags'],
      additionalProperties: false,
    }
    const answer: unknown = JSON.parse(await textOf(['Hi'], schemaForm(schema)))
    const read = readSchema(schema)
    assert.ok(read.ok)
    assert.deepEqual(checkAnswer(read.schema, answer), { ok: true })
  })

  it('says so where no example is found for a schema', async () => {
    const reply = await ask(['Hi'], schemaForm({ type: 'integer', minimum: 2, maximum: 1 }))
    assert.equal(reply.kind === 'error' && reply.retryable, false)
  })
})

describe('a directive', () => {
  for (const [directive, timedOut] of [
    ['please [[fail model_error]] now', false],
    ['[[fail timeout]]', true],
  ] as const) {
    it(`${directive} fails once, without a wait`, async () => {
      const reply = await ask([directive])
      isError(reply)
      assert.deepEqual([reply.retryable, reply.timedOut], [false, timedOut])
    })
  }

  it('[[fail content_policy_violation]] refuses', async () => {
    assert.equal((await ask(['[[fail content_policy_violation]]'])).kind, 'refused')
  })

  it('[[bad-json]] is malformed, also after a repair request', async () => {
    assert.throws(() => JSON.parse(BAD_JSON))
    const asked = ['[[bad-json]] x', { role: 'assistant', content: BAD_JSON } as const, 'Repair it.']
    for (const messages of [asked.slice(0, 1), asked])
      assert.equal(await textOf(messages, JSON_FORM), BAD_JSON)
  })

  it('[[bad-json once]] is repaired when the request quotes the answer', async () => {
    const first = '[[bad-json once]] x'
    assert.equal(await textOf([first], JSON_FORM), BAD_JSON)
    JSON.parse(await textOf([first, { role: 'assistant', content: BAD_JSON }, 'Repair it.'], JSON_FORM))
    JSON.parse(await textOf([first, `You said: ${BAD_JSON} Repair it.`], JSON_FORM))
  })

  it('is followed only in user messages, and in the last that has one', async () => {
    assert.equal((await ask([{ role: 'system', content: '[[fail model_error]]' }, 'Hi'])).kind, 'answer')
    const both = ['[[fail model_error]]', '[[fail content_policy_violation]]', 'Hi']
    assert.equal((await ask(both)).kind, 'refused')
  })

  it('is not repeated in the echo, unlike text that only resembles one', async () => {
    assert.match(await textOf(['[[bad-json once]][[delay 0s]] Hi [[fail nonsense]]']), /not valid JSON/)
    assert.match(await textOf(['[[delay 0s]] Hi [[nonsense]]']), /: "Hi \[\[nonsense\]\]"$/)
  })
})

describe('a delay', () => {
  for (const [directive, ms, kind] of [
    ['[[delay 2s]]', 2000, 'answer'],
    ['[[delay 0.5s]]', 500, 'answer'],
    ['[[delay 250ms]]', 250, 'answer'],
    ['[[delay 999999999s]]', MAX_DELAY_MS, 'answer'],
    ['[[fail timeout]] [[delay 2s]]', 2000, 'error'],
  ] as const) {
    it(`${directive} waits ${ms} ms on the clock`, async () => {
      const clock = new FakeClock()
      const asked = askOnce(new Simulator(clock), 'm', prompt(directive), never)
      assert.deepEqual(clock.pending(), [ms])
      clock.advance(ms)
      assert.equal((await asked).kind, kind)
    })
  }

  it('ends early on the signal and on close', async () => {
    const clock = new FakeClock()
    const simulator = new Simulator(clock)
    const stop = new Stop()
    const [first, second] = [stop, never].map((signal) =>
      askOnce(simulator, 'm', prompt('[[delay 60s]]'), signal),
    )
    const aborted = (reply?: Reply) => reply?.kind === 'error' && reply.aborted
    stop.now('release')
    assert.equal(aborted(await first), true)
    await simulator.close()
    assert.equal(aborted(await second), true)
    assert.deepEqual(clock.pending(), [])
  })
})
