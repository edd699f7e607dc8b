/**
 * Tests that every message reaches the models of other vendors, in every order of roles, if only their address is configured.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { LlamaCpp } from '../model-servers/llama-cpp.ts'
import { onAnyStore } from '../on-each-store.ts'
import type { Parley } from '../parley.ts'
import { adminOf } from './admin/admin.ts'
import { callerOf, startScene } from './caller.ts'
import { openDatabase } from './database.ts'
import { completed, granted } from './expect.ts'

const ORDERS = {
  'developer first': ['developer', 'user'],
  'system then developer': ['system', 'developer', 'user'],
  'all four roles': ['system', 'developer', 'user', 'assistant', 'user', 'developer'],
  'system in the middle': ['user', 'assistant', 'system', 'user'],
  'assistant first': ['assistant', 'user'],
  'system last': ['user', 'system'],
}

async function rejectedRoles(parley: Parley): Promise<string[]> {
  const [{ rejected_roles }] = granted(await (await adminOf(parley)).get('/overview'), 200).upstreams
  return rejected_roles.map(({ rejects }: { rejects: string }) => rejects)
}

onAnyStore(() => {
  for (const template of ['qwen-2.5', 'phi-3.5', 'gemma-2', 'mistral-nemo'] as const) {
    for (const format of ['text', 'json'] as const) {
      test(`2.3 ${template}: each order of roles completes as ${format}, and each text is in the prompt`, async (t) => {
        const llama = new LlamaCpp({ template, answer: () => '"fine"' })
        const { caller } = await startScene(t, { script: llama.script })
        for (const [order, roles] of Object.entries(ORDERS)) {
          const messages = roles.map((role, index) => ({ role, content: `${order}, ${role} says ${index}.` }))
          const created = await caller.create({ messages, response_format: { format } })
          assert.equal(completed(created), format === 'json' ? 'fine' : '"fine"', order)
          const prompt = llama.prompts.at(-1) ?? ''
          for (const { content } of messages) assert.ok(prompt.includes(content), `${content} in ${prompt}`)
          if (format === 'json') assert.ok(prompt.includes('Answer with one JSON value'))
        }
      })
    }
  }

  test('a rejected schema with a property named role does not move system messages of other accounts', async (t) => {
    const error = { message: "Invalid pattern of the property 'role': (x{1,99}){1,99}" }
    const { parley, caller, models } = await startScene(t, {
      script: ({ body }) =>
        body.response_format?.type === 'json_schema' ? reply.status(400, { body: { error } }) : undefined,
    })
    const schema = { type: 'object', properties: { role: { type: 'string' } } }
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ]
    await caller.create({ messages, response_format: { format: 'json', schema } })
    completed(await (await callerOf(parley, 'user_max', 'other')).create({ messages }))
    const roles = models.completions().at(-1)?.body.messages
    assert.deepEqual(
      roles?.map(({ role }) => role),
      ['system', 'user'],
    )
    assert.deepEqual(await rejectedRoles(parley), [])
  })

  test('the receipt shows both calls, and the overview what the server rejects', async (t) => {
    const llama = new LlamaCpp({ template: 'mistral-nemo' })
    const { parley, caller } = await startScene(t, { script: llama.script })
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'system', content: 'b' },
    ]
    completed(await caller.create({ messages }))
    const [stored] = await (await openDatabase(t, parley)).outcomes()
    const { calls } = JSON.parse(String(stored?.receipt))
    const sent = calls.map(({ roles, other_format }: Record<string, unknown>) => [roles, other_format])
    assert.deepEqual(sent, [
      ['merged_system', undefined],
      ['no_system', 'roles'],
    ])
    assert.equal(JSON.parse(String(stored?.usage)).calls, 2)
    assert.deepEqual(await rejectedRoles(parley), ['irregular'])
  })
})
