import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { SchemaObject } from '../job/job.ts'
import type { AnswerForm, Prompt } from './model-server.ts'
import { addedInstruction, type Dialect, requestBody, requestFormat, SCHEMA_NAME } from './request-body.ts'

const object: SchemaObject = { type: 'object', properties: { age: { type: 'integer' } } }
const list: SchemaObject = { type: 'array', items: { type: 'string' } }

function schemaForm(schema: SchemaObject, strict: boolean): AnswerForm {
  return { kind: 'schema', schemaJson: JSON.stringify(schema), strict, isObject: schema.type === 'object' }
}

interface Sent {
  readonly model: string
  readonly messages: readonly { readonly role: string; readonly content: string }[]
  readonly response_format?: unknown
}

function sent(form: AnswerForm, supported: Dialect['structured_output']): Sent {
  const prompt: Prompt = {
    account: 'acme',
    messagesJson: JSON.stringify(callers),
    form,
  }
  return JSON.parse(requestBody('m', prompt, { roles: 'native', structured_output: supported })) as Sent
}

const callers = [
  { role: 'user', content: 'u' },
  { role: 'system', content: 's' },
]

describe('the form of the answer', () => {
  it('text: nothing is added', () => {
    for (const supported of ['json_schema', 'json_object', 'none'] as const) {
      assert.deepEqual(sent({ kind: 'text' }, supported), { model: 'm', messages: callers })
    }
  })

  it('json: one instruction and no response_format, whatever the server supports', () => {
    for (const supported of ['json_schema', 'json_object', 'none'] as const) {
      const body = sent({ kind: 'json' }, supported)
      assert.equal(body.response_format, undefined)
      const instruction = addedInstruction({ kind: 'json' }, supported)
      assert.match(instruction ?? '', /JSON/)
      assert.deepEqual(body.messages, [{ role: 'system', content: instruction }, ...callers])
    }
  })

  for (const strict of [true, false]) {
    it(`schema, json_schema: sent as it is, strict ${strict}`, () => {
      const form = schemaForm(object, strict)
      const body = sent(form, 'json_schema')
      assert.deepEqual(body.response_format, {
        type: 'json_schema',
        json_schema: { name: SCHEMA_NAME, schema: object, strict },
      })
      assert.deepEqual(body.messages, callers)
      assert.equal(addedInstruction(form, 'json_schema'), null)
    })
  }

  it('schema, json_object: the schema goes into an instruction', () => {
    const form = schemaForm(object, true)
    const body = sent(form, 'json_object')
    assert.deepEqual(body.response_format, { type: 'json_object' })
    assert.equal(body.messages[0]?.role, 'system')
    assert.ok(body.messages[0]?.content.includes(JSON.stringify(object)))
    assert.equal(body.messages[0]?.content, addedInstruction(form, 'json_object'))
    assert.deepEqual(body.messages.slice(1), callers)
  })

  it('schema of a type other than object, json_object: no response_format, which would force an object', () => {
    const body = sent(schemaForm(list, false), 'json_object')
    assert.equal(body.response_format, undefined)
    assert.ok(body.messages[0]?.content.includes(JSON.stringify(list)))
  })

  it('schema, none: an instruction alone', () => {
    const body = sent(schemaForm(object, true), 'none')
    assert.equal(body.response_format, undefined)
    assert.ok(body.messages[0]?.content.includes(JSON.stringify(object)))
  })
})

describe('the request format, for the receipt', () => {
  const json: AnswerForm = { kind: 'json' }
  const cases = [
    [{ kind: 'text' }, 'json_schema', undefined],
    [{ kind: 'text' }, 'none', undefined],
    [json, 'json_schema', 'instruction'],
    [json, 'json_object', 'instruction'],
    [schemaForm(object, true), 'json_schema', 'json_schema_strict'],
    [schemaForm(object, false), 'json_schema', 'json_schema'],
    [schemaForm(object, true), 'json_object', 'json_object'],
    [schemaForm(list, true), 'json_object', 'instruction'],
    [schemaForm(object, true), 'none', 'instruction'],
  ] as const
  for (const [form, supported, mode] of cases) {
    it(`${form.kind} on a server that supports ${supported}: ${mode ?? 'no JSON mode'}`, () => {
      const instruction = addedInstruction(form, supported)
      assert.deepEqual(requestFormat(form, { roles: 'developer_as_system', structured_output: supported }), {
        roles: 'developer_as_system',
        ...(mode && { json_mode: mode }),
        ...(instruction !== null && { instruction }),
      })
    })
  }
})

describe('developer messages on a server that does not know the role', () => {
  it('are sent as system, whatever the texts look like', () => {
    const messages = [
      { role: 'developer', content: '"role":"developer"' },
      { content: '{"role":"developer"}', role: 'developer' },
      { role: 'user', content: 'developer' },
    ]
    const prompt: Prompt = { account: 'acme', messagesJson: JSON.stringify(messages), form: { kind: 'text' } }
    const body = requestBody('m', prompt, { roles: 'developer_as_system', structured_output: 'none' })
    const expected = messages.map(({ role, content }) => ({
      role: role === 'user' ? role : 'system',
      content,
    }))
    assert.deepEqual((JSON.parse(body) as Sent).messages, expected)
  })
})
