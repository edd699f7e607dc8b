/** Tests `roles: auto` over HTTP against servers that apply chat templates. */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { reply, type Script } from '../../test/model-server.ts'
import type { ChatTemplate } from '../../test/model-servers/chat-templates.ts'
import { LlamaCpp } from '../../test/model-servers/llama-cpp.ts'
import { ask, callsOf, type RouterSetup, startRouter } from '../../test/support/router-setup.ts'
import type { Message } from '../job/job.ts'
import { ACCEPTED_MS, REMEMBERED_MS } from './automatic-roles.ts'
import type { AnswerForm } from './model-server.ts'
import { ROUNDS } from './router.ts'

const ROLE_OF = { s: 'system', d: 'developer', a: 'assistant', u: 'user' } as const

function conversation(roles: string): Message[] {
  return roles.split('').map((letter, index) => {
    const role = ROLE_OF[letter as keyof typeof ROLE_OF]
    return { role, content: `${role} says ${index}.` }
  })
}

const askWith = (setup: RouterSetup, roles: string, form: AnswerForm = { kind: 'text' }, pauses = 0) => {
  const messagesJson = JSON.stringify(conversation(roles))
  return ask(setup, { prompt: { account: 'acme', messagesJson, form }, pauses })
}

const targetOf = ({ router }: RouterSetup) => router.state()[0]?.targets[0]
const formOf = (schemaJson: string): AnswerForm => ({
  kind: 'schema',
  schemaJson,
  strict: false,
  isObject: true,
})
const PATTERN = '{"type":"object","properties":{"a":{"type":"string","pattern":"b"}}}'
const error = (message: string) => reply.status(400, { body: { error: { message } } })

async function start(t: TestContext, template: ChatTemplate, generation: 2025 | 2026 = 2025) {
  const llama = new LlamaCpp({ template, generation })
  const setup = await startRouter(t, { a: llama.script })
  const send = async (roles: string, form?: AnswerForm) => {
    const { reply: got, calls } = await askWith(setup, roles, form)
    const prompt = llama.prompts.at(-1) ?? ''
    for (const { content } of conversation(roles))
      assert.ok(prompt.includes(content), `${content} in ${prompt}`)
    for (const { instruction = '' } of calls.slice(-1)) assert.ok(prompt.includes(instruction), instruction)
    return [got.kind, ...calls.map((call) => call.roles)]
  }
  return { setup, send }
}

const ORDERS = 'du sdu sduau sdua uasu usau au sau us uas uu dudaudd uaasduudsa'.split(' ')

describe('every order of roles reaches the prompt', () => {
  for (const template of ['qwen-2.5', 'phi-3.5', 'gemma-2', 'mistral-nemo'] as const) {
    for (const generation of [2025, 2026] as const) {
      for (const form of [{ kind: 'text' }, { kind: 'json' }] as const) {
        it(`${template} of ${generation}, ${form.kind}`, async (t) => {
          const { send } = await start(t, template, generation)
          for (const order of ORDERS) assert.equal((await send(order, form))[0], 'answer', order)
        })
        it(`${template} of ${generation}, ${form.kind}, each by a server that knows nothing yet`, async (t) => {
          for (const order of ORDERS) {
            const { send } = await start(t, template, generation)
            assert.equal((await send(order, form))[0], 'answer', order)
          }
        })
      }
    }
  }
})

describe('what a template rejects', () => {
  it('is remembered for less than an hour, and then retried', async (t) => {
    const { send, setup } = await start(t, 'gemma-2', 2026)
    assert.equal(targetOf(setup)?.learnedRoles, null)
    assert.deepEqual(await send('sdu'), ['answer', 'merged_system'])
    assert.deepEqual(await send('uasu'), ['answer', 'merged_system', 'no_system'])
    const untilMs = setup.clock.nowMs() + REMEMBERED_MS
    assert.deepEqual(targetOf(setup)?.learnedRoles, { rejects: 'irregular', untilMs })
    setup.clock.advance(REMEMBERED_MS - 1)
    assert.deepEqual(await send('uasu'), ['answer', 'no_system'])
    setup.clock.advance(1)
    assert.equal(targetOf(setup)?.learnedRoles, null)
    assert.deepEqual(await send('uasu'), ['answer', 'merged_system', 'no_system'])
  })

  it('leaves the system message to those conversations whose form the template takes', async (t) => {
    const { send } = await start(t, 'mistral-nemo')
    assert.deepEqual(await send('uasu'), ['answer', 'merged_system', 'no_system'])
    assert.deepEqual(await send('usau'), ['answer', 'no_system'])
    assert.deepEqual(await send('sdu'), ['answer', 'merged_system'])
    // The template would silently drop the system message of this conversation.
    assert.deepEqual(await send('sua'), ['answer', 'no_system'])
  })

  it('holds for every system message where one at the beginning is rejected', async (t) => {
    const rejects: Script = ({ body }) =>
      body.messages[0]?.role === 'system' ? reply.status(400) : undefined
    const setup = await startRouter(t, { a: rejects })
    const rolesOf = async (roles: string) => callsOf(await askWith(setup, roles), 'roles')
    assert.deepEqual(await rolesOf('du'), ['merged_system', 'no_system'])
    assert.equal(targetOf(setup)?.learnedRoles?.rejects, 'system')
    assert.deepEqual(await rolesOf('uasu'), ['no_system'])
    assert.deepEqual(await rolesOf('uau'), ['native'])
  })

  it('is not taken from a schema with a property named role, which the server rejects', async (t) => {
    const message =
      "Invalid schema for response_format: In context=('properties', 'role'), 'pattern' is not permitted."
    const script: Script = ({ body }) =>
      body.response_format?.type === 'json_schema'
        ? reply.status(400, { body: { error: { message, type: 'invalid_request_error' } } })
        : undefined
    const setup = await startRouter(t, { a: script })
    const form = formOf('{"type":"object","properties":{"role":{"type":"string","pattern":"b"}}}')
    assert.deepEqual(callsOf(await askWith(setup, 'su', form), 'roles', 'json_mode', 'other_format'), [
      'merged_system json_schema -',
      'merged_system json_object json_mode',
    ])
    assert.equal(targetOf(setup)?.learnedRoles, null)
    assert.deepEqual(callsOf(await askWith(setup, 'su'), 'roles'), ['merged_system'])
  })

  it('is taken from a request with a schema only if it is rejected without it too', async (t) => {
    for (const [message, rejects] of [
      ['System role not supported', 'system'],
      ['Bad request', undefined],
    ] as const) {
      const script: Script = ({ body }) => (body.messages[0]?.role === 'system' ? error(message) : undefined)
      const setup = await startRouter(t, { a: script })
      assert.equal(
        (await askWith(setup, 'su', formOf('{"type":"object","properties":{}}'))).reply.kind,
        'answer',
      )
      assert.equal(targetOf(setup)?.learnedRoles?.rejects, rejects)
    }
  })

  it('is not taken from a failure now and then', async (t) => {
    const setup = await startRouter(t)
    const rolesOf = async (failsFirst = false) => {
      let fails = failsFirst
      setup.a.script = () => {
        const answer = fails ? reply.status(500) : undefined
        fails = false
        return answer
      }
      return callsOf(await askWith(setup, 'su'), 'roles')
    }
    assert.deepEqual(await rolesOf(), ['merged_system'])
    assert.deepEqual(await rolesOf(true), ['merged_system', 'no_system'])
    assert.deepEqual(await rolesOf(), ['merged_system'])
    setup.clock.advance(ACCEPTED_MS)
    assert.deepEqual(await rolesOf(true), ['merged_system', 'no_system'])
    assert.deepEqual(await rolesOf(), ['no_system'])
  })
})

describe('a rejected form', () => {
  it('costs neither a round nor a failure of the target, and is reported with the other form', async (t) => {
    const { setup } = await start(t, 'gemma-2', 2026)
    assert.deepEqual(callsOf(await askWith(setup, 'uasu'), 'kind', 'status', 'roles', 'other_format'), [
      'trouble 400 merged_system -',
      'answer 200 no_system roles',
    ])
    assert.equal(targetOf(setup)?.consecutiveFailures, 0)
  })

  it('is not tried where it would be the same conversation', async (t) => {
    const setup = await startRouter(t, { a: () => reply.status(500) })
    await askWith(setup, 'uau', undefined, ROUNDS - 1)
    assert.equal(setup.a.requests.length, ROUNDS)
  })

  it('may be rejected for its roles and for its schema', async (t) => {
    for (const generation of [2025, 2026] as const) {
      const { setup } = await start(t, 'mistral-nemo', generation)
      const routed = await askWith(setup, 'uasu', formOf(PATTERN))
      assert.equal(routed.reply.kind, 'answer')
      assert.deepEqual(callsOf(routed, 'roles', 'json_mode', 'other_format'), [
        'merged_system json_schema -',
        'merged_system json_object json_mode',
        'no_system json_object both',
      ])
    }
  })

  it('may be rejected for its schema, and then for the instruction that replaces it', async (t) => {
    const script: Script = ({ body }) => {
      if (body.response_format?.type === 'json_schema') return error('Failed to parse grammar')
      return body.messages[0]?.role === 'system' ? error('System role not supported') : undefined
    }
    const setup = await startRouter(t, { a: script })
    for (const roles of [
      ['native', 'merged_system', 'no_system'],
      ['native', 'no_system'],
    ]) {
      const routed = await askWith(setup, 'u', formOf(PATTERN))
      assert.deepEqual([routed.reply.kind, ...callsOf(routed, 'roles')], ['answer', ...roles])
    }
    // This template would silently drop a system message.
    const { send } = await start(t, 'mistral-nemo')
    assert.deepEqual(await send('ua', formOf(PATTERN)), ['answer', 'native', 'no_system'])
  })
})
