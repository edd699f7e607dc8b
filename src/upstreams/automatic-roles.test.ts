/** `roles: auto`, tested over HTTP against servers that apply chat templates. */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { reply, type Script } from '../../test/model-server.ts'
import type { ChatTemplate } from '../../test/model-servers/chat-templates.ts'
import { LlamaCpp } from '../../test/model-servers/llama-cpp.ts'
import { modelRequest, never, passPauses, startRouter } from '../../test/support/router-setup.ts'
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

function requestOf(roles: string, form: AnswerForm = { kind: 'text' }) {
  const messagesJson = JSON.stringify(conversation(roles))
  return modelRequest('one', { prompt: { account: 'acme', messagesJson, form } })
}

async function start(t: TestContext, template: ChatTemplate, generation: 2025 | 2026 = 2025) {
  const llama = new LlamaCpp({ template, generation })
  const { router, a, clock } = await startRouter(t, { a: llama.script })
  const send = async (roles: string, form?: AnswerForm) => {
    const { reply: got, calls } = await router.ask(requestOf(roles, form), never)
    const prompt = llama.prompts.at(-1) ?? ''
    for (const { content } of conversation(roles))
      assert.ok(prompt.includes(content), `${content} in ${prompt}`)
    for (const { instruction = '' } of calls.slice(-1)) assert.ok(prompt.includes(instruction), instruction)
    return [got.kind, ...calls.map((call) => call.roles)]
  }
  const target = () => router.state()[0]?.targets[0]
  return { router, server: a, clock, llama, send, target }
}

const ORDERS = [
  'du',
  'sdu',
  'sduau',
  'sdua',
  'uasu',
  'usau',
  'au',
  'sau',
  'us',
  'uas',
  'uu',
  'dudaudd',
  'uaasduudsa',
]

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
    const { send, clock, target } = await start(t, 'gemma-2', 2026)
    assert.equal(target()?.learnedRoles, null)
    assert.deepEqual(await send('sdu'), ['answer', 'merged_system'])
    assert.deepEqual(await send('uasu'), ['answer', 'merged_system', 'no_system'])
    assert.deepEqual(target()?.learnedRoles, { rejects: 'irregular', untilMs: clock.nowMs() + REMEMBERED_MS })
    clock.advance(REMEMBERED_MS - 1)
    assert.deepEqual(await send('uasu'), ['answer', 'no_system'])
    clock.advance(1)
    assert.equal(target()?.learnedRoles, null)
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
    const { router } = await startRouter(t, { a: rejects })
    const rolesOf = async (roles: string) =>
      (await router.ask(requestOf(roles), never)).calls.map((call) => call.roles)
    assert.deepEqual(await rolesOf('du'), ['merged_system', 'no_system'])
    assert.equal(router.state()[0]?.targets[0]?.learnedRoles?.rejects, 'system')
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
    const { router } = await startRouter(t, { a: script })
    const schemaJson = '{"type":"object","properties":{"role":{"type":"string","pattern":"b"}}}'
    const form: AnswerForm = { kind: 'schema', schemaJson, strict: false, isObject: true }
    const { calls } = await router.ask(requestOf('su', form), never)
    assert.deepEqual(
      calls.map(({ roles, json_mode, other_format }) => [roles, json_mode, other_format]),
      [
        ['merged_system', 'json_schema', undefined],
        ['merged_system', 'json_object', 'json_mode'],
      ],
    )
    assert.equal(router.state()[0]?.targets[0]?.learnedRoles, null)
    const text = await router.ask(requestOf('su'), never)
    assert.deepEqual(
      text.calls.map(({ roles }) => roles),
      ['merged_system'],
    )
  })

  it('is taken from a request with a schema only if it is rejected without it too', async (t) => {
    const about =
      (message: string): Script =>
      ({ body }) =>
        body.messages[0]?.role === 'system' ? reply.status(400, { body: { error: { message } } }) : undefined
    const schemaJson = '{"type":"object","properties":{}}'
    const form: AnswerForm = { kind: 'schema', schemaJson, strict: false, isObject: true }
    const learned = async (message: string) => {
      const { router } = await startRouter(t, { a: about(message) })
      assert.equal((await router.ask(requestOf('su', form), never)).reply.kind, 'answer')
      return router.state()[0]?.targets[0]?.learnedRoles?.rejects
    }
    assert.equal(await learned('System role not supported'), 'system')
    assert.equal(await learned('Bad request'), undefined)
  })

  it('is not taken from a failure now and then', async (t) => {
    let failsNext = false
    const script: Script = () => {
      const fails = failsNext
      failsNext = false
      return fails ? reply.status(500) : undefined
    }
    const { router, clock } = await startRouter(t, { a: script })
    const rolesOf = async () => (await router.ask(requestOf('su'), never)).calls.map((call) => call.roles)
    assert.deepEqual(await rolesOf(), ['merged_system'])
    failsNext = true
    assert.deepEqual(await rolesOf(), ['merged_system', 'no_system'])
    assert.deepEqual(await rolesOf(), ['merged_system'])
    clock.advance(ACCEPTED_MS)
    failsNext = true
    assert.deepEqual(await rolesOf(), ['merged_system', 'no_system'])
    assert.deepEqual(await rolesOf(), ['no_system'])
  })
})

describe('a rejected form', () => {
  it('costs neither a round nor a failure of the target, and is reported with the other form', async (t) => {
    const { router, target } = await start(t, 'gemma-2', 2026)
    const { calls } = await router.ask(requestOf('uasu'), never)
    assert.deepEqual(
      calls.map(({ kind, status, roles, other_format }) => [kind, status, roles, other_format]),
      [
        ['trouble', 400, 'merged_system', undefined],
        ['answer', 200, 'no_system', 'roles'],
      ],
    )
    assert.equal(target()?.consecutiveFailures, 0)
  })

  it('is not tried where it would be the same conversation', async (t) => {
    const { router, a, clock } = await startRouter(t, { a: () => reply.status(500) })
    const asked = router.ask(requestOf('uau'), never)
    await passPauses(clock, ROUNDS - 1)
    await asked
    assert.equal(a.requests.length, ROUNDS)
  })

  it('may be rejected for its roles and for its schema', async (t) => {
    const schemaJson = '{"type":"object","properties":{"a":{"type":"string","pattern":"b"}}}'
    const form: AnswerForm = { kind: 'schema', schemaJson, strict: false, isObject: true }
    for (const generation of [2025, 2026] as const) {
      const { router } = await start(t, 'mistral-nemo', generation)
      const { reply: got, calls } = await router.ask(requestOf('uasu', form), never)
      assert.equal(got.kind, 'answer')
      assert.deepEqual(
        calls.map(({ roles, json_mode, other_format }) => [roles, json_mode, other_format]),
        [
          ['merged_system', 'json_schema', undefined],
          ['merged_system', 'json_object', 'json_mode'],
          ['no_system', 'json_object', 'both'],
        ],
      )
    }
  })

  it('may be rejected for its schema, and then for the instruction that replaces it', async (t) => {
    const schemaJson = '{"type":"object","properties":{"a":{"type":"string","pattern":"b"}}}'
    const form: AnswerForm = { kind: 'schema', schemaJson, strict: false, isObject: true }
    const error = (message: string) => reply.status(400, { body: { error: { message } } })
    const script: Script = ({ body }) => {
      if (body.response_format?.type === 'json_schema') return error('Failed to parse grammar')
      return body.messages[0]?.role === 'system' ? error('System role not supported') : undefined
    }
    const { router } = await startRouter(t, { a: script })
    const sent = async (roles: string) => {
      const { reply: got, calls } = await router.ask(requestOf(roles, form), never)
      return [got.kind, ...calls.map((call) => call.roles)]
    }
    assert.deepEqual(await sent('u'), ['answer', 'native', 'merged_system', 'no_system'])
    assert.deepEqual(await sent('u'), ['answer', 'native', 'no_system'])
    // This template would silently drop a system message.
    const { send } = await start(t, 'mistral-nemo')
    assert.deepEqual(await send('ua', form), ['answer', 'native', 'no_system'])
  })
})
