import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { SchemaObject } from '../job/job.ts'
import { requestBody, requestFormat, SCHEMA_NAME, SentOptions, withoutSchema } from './build-request.ts'
import type { AnswerForm } from './model-server.ts'
import { upstreamError } from './read-completion.ts'

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

const callers = [
  { role: 'user', content: 'u' },
  { role: 'system', content: 's' },
]

const sent = (
  form: AnswerForm,
  format: Parameters<typeof requestBody>[2],
  messages: unknown = callers,
): Sent =>
  JSON.parse(requestBody('m', { account: 'acme', messagesJson: JSON.stringify(messages), form }, format))

const asSchema = (strict: boolean) => ({
  type: 'json_schema',
  json_schema: { name: SCHEMA_NAME, schema: object, strict },
})
const anyObject = schemaForm({ type: 'object' }, false)
const nameOf = (form: AnswerForm) =>
  form === anyObject
    ? 'schema of any object'
    : form.kind === 'schema'
      ? `schema of ${form.isObject ? 'an object' : 'a list'}, strict ${form.strict}`
      : form.kind
const asObject = { type: 'json_object' }
const text: AnswerForm = { kind: 'text' }
const json: AnswerForm = { kind: 'json' }

describe('the form of the answer', () => {
  for (const [form, supported, mode, response_format] of [
    [text, 'json_schema', undefined, undefined],
    [text, 'json_object', undefined, undefined],
    [text, 'none', undefined, undefined],
    [json, 'json_schema', 'instruction', undefined],
    [json, 'json_object', 'instruction', undefined],
    [json, 'none', 'instruction', undefined],
    [schemaForm(object, true), 'json_schema', 'json_schema_strict', asSchema(true)],
    [schemaForm(object, false), 'json_schema', 'json_schema', asSchema(false)],
    [schemaForm(object, true), 'json_object', 'json_object', asObject],
    [anyObject, 'json_schema', 'json_object', asObject],
    // The mode `json_object` would force an object.
    [schemaForm(list, true), 'json_object', 'instruction', undefined],
    [schemaForm(object, true), 'none', 'instruction', undefined],
  ] as const) {
    it(`${nameOf(form)} on a server that supports ${supported}: ${mode ?? 'no JSON mode'}`, () => {
      const format = requestFormat(form, 'native', supported)
      const { instruction, ...rest } = format
      assert.deepEqual(rest, { roles: 'native', ...(mode && { json_mode: mode }) })
      assert.equal(instruction !== undefined, mode === 'instruction' || mode === 'json_object')
      const { messages, ...body } = sent(form, format)
      assert.deepEqual(body, { model: 'm', ...(response_format && { response_format }) })
      const added = instruction === undefined ? [] : [{ role: 'system', content: instruction }]
      assert.deepEqual(messages, [...added, ...callers])
      if (instruction) assert.match(instruction, /JSON/)
      if (instruction && form.kind === 'schema') assert.ok(instruction.includes(form.schemaJson))
    })
  }
})

describe('a server that rejects the schema', () => {
  for (const [schema, mode] of [
    [object, 'json_object'],
    [list, 'instruction'],
  ] as const) {
    it(`gets ${String(schema.type)} as ${mode}, with the schema in the instruction`, () => {
      const form = schemaForm(schema, false)
      const other = withoutSchema(form, requestFormat(form, 'native', 'json_schema'))
      assert.equal(other?.json_mode, mode)
      assert.ok(other.instruction?.includes(JSON.stringify(schema)))
      assert.deepEqual(sent(form, other).response_format, mode === 'json_object' ? asObject : undefined)
      const last = mode === 'json_object' ? withoutSchema(form, other) : other
      assert.deepEqual(last, { ...other, json_mode: 'instruction' })
      assert.equal(withoutSchema(form, last), null)
    })
  }

  it('is asked the same way again if there was no schema', () => {
    for (const form of [text, json]) {
      assert.equal(withoutSchema(form, requestFormat(form, 'native', 'json_schema')), null)
    }
  })
})

describe('developer messages on a server that does not know the role', () => {
  it('are sent as system, whatever the texts look like', () => {
    const messages = [
      { role: 'developer', content: '"role":"developer"' },
      { content: '{"role":"developer"}', role: 'developer' },
      { role: 'user', content: 'developer' },
    ]
    const roles = messages.map(({ role }) => (role === 'user' ? role : 'system'))
    assert.deepEqual(
      sent(text, { roles: 'developer_as_system' }, messages).messages,
      messages.map(({ content }, at) => ({ role: roles[at], content })),
    )
  })
})

describe('the name of max_tokens', () => {
  const OPTIONS = '{"max_tokens":5}'
  const rejects = (name: string) =>
    upstreamError({ status: 400, message: `Unsupported parameter: '${name}'` })
  const older = { roles: 'native' } as const
  const newer = { ...older, max_tokens_as: 'max_completion_tokens' } as const

  it('is the other one after a rejection, but not after a second one', () => {
    const options = new SentOptions({}, false)
    const first = options.named(older, 'm', OPTIONS)
    const second = options.renamed(first, OPTIONS, rejects('max_tokens'))
    assert.deepEqual([first, second], [older, newer])
    assert.ok(second)
    assert.equal(options.renamed(second, OPTIONS, rejects('max_completion_tokens')), null)
  })

  it('replaces either name in the settings', () => {
    for (const body of [{ max_tokens: 9 }, { max_completion_tokens: 9 }]) {
      const options = new SentOptions(body, false)
      assert.equal(options.bodyEnd(older, OPTIONS), ',"max_tokens":5}')
      assert.equal(options.bodyEnd(newer, OPTIONS), ',"max_completion_tokens":5}')
    }
  })

  it('is the other one even if a later request was answered with it before the rejection arrived', () => {
    const options = new SentOptions({}, false)
    const first = options.named(older, 'm', OPTIONS)
    options.answered(newer, 'm', OPTIONS)
    assert.deepEqual(options.renamed(first, OPTIONS, rejects('max_tokens')), newer)
    assert.deepEqual(options.named(older, 'm', OPTIONS), newer)
  })
})
