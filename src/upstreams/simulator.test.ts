import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { checkAnswer, readSchema } from 'parley-json-schema'
import { FakeClock } from '../../test/fake-clock.ts'
import { ask as askOnce } from '../../test/support/openai-client-setup.ts'
import type { Message, SchemaObject } from '../job/job.ts'
import { Stop } from '../job/stop.ts'
import type { AnswerForm, Prompt, Reply } from './model-server.ts'
import { BAD_JSON, ECHOED_CHARACTERS, MAX_DELAY_MS, Simulator } from './simulator.ts'

const never = new Stop()
const text: AnswerForm = { kind: 'text' }

function user(content: string): Message {
  return { role: 'user', content }
}

function promptOf(messages: readonly Message[], form: AnswerForm = text): Prompt {
  return { account: 'acme', messagesJson: JSON.stringify(messages), form }
}

function schemaForm(schema: SchemaObject): AnswerForm {
  return { kind: 'schema', schemaJson: JSON.stringify(schema), strict: false, isObject: false }
}

async function ask(messages: readonly Message[], form: AnswerForm = text): Promise<Reply> {
  const clock = new FakeClock()
  const reply = await askOnce(new Simulator(clock), 'gpt-5', promptOf(messages, form), never)
  assert.deepEqual(clock.pending(), [])
  return reply
}

function textOf(reply: Reply): string {
  assert.equal(reply.kind, 'answer')
  return reply.kind === 'answer' ? reply.text : ''
}

describe('the simulator', () => {
  it('echoes the last user message in a sentence that says it is simulated', async () => {
    const text = textOf(
      await ask([user('first'), user('How are you?'), { role: 'system', content: 'later' }]),
    )
    assert.equal(text, 'This is a simulated answer; the last message was: "How are you?"')
  })

  it('counts tokens plausibly', async () => {
    const reply = await ask([user('x'.repeat(400))])
    assert.ok(reply.kind === 'answer')
    assert.equal(reply.tokens.input, 104)
    assert.equal(reply.tokens.output, Math.ceil(reply.text.length / 4))
  })

  it('truncates a long echo, never within a surrogate pair', async () => {
    const text = textOf(await ask([user(`a${'\u{1F600}'.repeat(ECHOED_CHARACTERS)}`)]))
    assert.ok(text.length < ECHOED_CHARACTERS + 100)
    assert.ok(text.isWellFormed() && !text.includes('\uFFFD'))
  })

  it('answers json without a schema with an object', async () => {
    const text: unknown = JSON.parse(textOf(await ask([user('Hi "there"')], { kind: 'json' })))
    assert.deepEqual(text, { simulated: true, last_message: 'Hi "there"' })
  })

  it('reports simulated JSON and native roles as its request format', () => {
    const simulator = new Simulator(new FakeClock())
    assert.deepEqual(simulator.requestFormat('m', promptOf([], text)), { roles: 'native' })
    assert.deepEqual(simulator.requestFormat('m', promptOf([], { kind: 'json' })), {
      roles: 'native',
      json_mode: 'simulated',
    })
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
    const text: unknown = JSON.parse(textOf(await ask([user('Hi')], schemaForm(schema))))
    const read = readSchema(schema)
    assert.ok(read.ok)
    assert.deepEqual(checkAnswer(read.schema, text), { ok: true })
  })

  it('says so where no example is found for a schema', async () => {
    const schema: SchemaObject = { type: 'integer', minimum: 2, maximum: 1 }
    const reply = await ask([user('Hi')], schemaForm(schema))
    assert.equal(reply.kind === 'error' && reply.retryable, false)
  })
})

describe('a directive', () => {
  it('[[fail model_error]] fails, once', async () => {
    const reply = await ask([user('please [[fail model_error]] now')])
    assert.equal(reply.kind === 'error' && !reply.retryable && !reply.timedOut, true)
  })

  it('[[fail content_policy_violation]] refuses', async () => {
    assert.equal((await ask([user('[[fail content_policy_violation]]')])).kind, 'refused')
  })

  it('[[fail timeout]] is a call that timed out, without the wait', async () => {
    const reply = await ask([user('[[fail timeout]]')])
    assert.equal(reply.kind === 'error' && reply.timedOut && !reply.retryable, true)
  })

  it('[[bad-json]] is malformed, also after a repair request', async () => {
    const first = await ask([user('[[bad-json]] x')], { kind: 'json' })
    assert.equal(textOf(first), BAD_JSON)
    assert.throws(() => JSON.parse(BAD_JSON))
    const repair: Message[] = [
      user('[[bad-json]] x'),
      { role: 'assistant', content: BAD_JSON },
      user('Repair it.'),
    ]
    assert.equal(textOf(await ask(repair, { kind: 'json' })), BAD_JSON)
  })

  it('[[bad-json once]] is repaired when the request quotes the answer', async () => {
    const first = [user('[[bad-json once]] x')]
    assert.equal(textOf(await ask(first, { kind: 'json' })), BAD_JSON)
    for (const shown of [
      [{ role: 'assistant', content: BAD_JSON } as const, user('Repair it.')],
      [user(`You said: ${BAD_JSON} Repair it.`)],
    ]) {
      JSON.parse(textOf(await ask([...first, ...shown], { kind: 'json' })))
    }
  })

  it('is followed only in user messages, and in the last that has one', async () => {
    const system: Message = { role: 'system', content: '[[fail model_error]]' }
    assert.equal((await ask([system, user('Hi')])).kind, 'answer')
    const text = [user('[[fail model_error]]'), user('[[fail content_policy_violation]]'), user('Hi')]
    assert.equal((await ask(text)).kind, 'refused')
  })

  it('is not repeated in the echo, unlike text that only resembles one', async () => {
    assert.match(
      textOf(await ask([user('[[bad-json once]][[delay 0s]] Hi [[fail nonsense]]')], text)),
      /not valid JSON/,
    )
    assert.match(textOf(await ask([user('[[delay 0s]] Hi [[nonsense]]')])), /: "Hi \[\[nonsense\]\]"$/)
  })
})

describe('a delay', () => {
  for (const [directive, ms] of [
    ['[[delay 2s]]', 2000],
    ['[[delay 0.5s]]', 500],
    ['[[delay 250ms]]', 250],
    ['[[delay 999999999s]]', MAX_DELAY_MS],
  ] as const) {
    it(`${directive} waits ${ms} ms on the clock`, async () => {
      const clock = new FakeClock()
      const asked = askOnce(new Simulator(clock), 'm', promptOf([user(directive)]), never)
      assert.deepEqual(clock.pending(), [ms])
      clock.advance(ms)
      assert.equal((await asked).kind, 'answer')
    })
  }

  it('precedes a failure in the same message', async () => {
    const clock = new FakeClock()
    const messages = [user('[[fail timeout]] [[delay 2s]]')]
    const asked = askOnce(new Simulator(clock), 'm', promptOf(messages), never)
    clock.advance(2000)
    assert.equal((await asked).kind, 'error')
  })

  it('ends early on the signal and on close', async () => {
    const clock = new FakeClock()
    const simulator = new Simulator(clock)
    const stop = new Stop()
    const prompt = promptOf([user('[[delay 60s]]')])
    const [first, second] = [askOnce(simulator, 'm', prompt, stop), askOnce(simulator, 'm', prompt, never)]
    stop.now('release')
    const stopped = await first
    assert.equal(stopped.kind === 'error' && stopped.aborted, true)
    await simulator.close()
    const closed = await second
    assert.equal(closed.kind === 'error' && closed.aborted, true)
    assert.deepEqual(clock.pending(), [])
  })
})
