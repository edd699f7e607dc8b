import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { SchemaObject } from '../job/job.ts'
import type { AnswerForm, Prompt } from './model-server.ts'
import { upstreamError } from './read-completion.ts'
import { requestBody, requestFormat, SCHEMA_NAME, SentOptions, withoutSchema } from './request-body.ts'

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

type Supported = Parameters<typeof requestFormat>[2]

function instructionOf(form: AnswerForm, supported: Supported): string | undefined {
  return requestFormat(form, 'native', supported).instruction
}

function sent(form: AnswerForm, supported: Supported): Sent {
  const prompt: Prompt = {
    account: 'acme',
    messagesJson: JSON.stringify(callers),
    form,
  }
  return JSON.parse(requestBody('m', prompt, requestFormat(form, 'native', supported))) as Sent
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
      const instruction = instructionOf({ kind: 'json' }, supported)
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
      assert.equal(instructionOf(form, 'json_schema'), undefined)
    })
  }

  it('schema, json_object: the schema goes into an instruction', () => {
    const form = schemaForm(object, true)
    const body = sent(form, 'json_object')
    assert.deepEqual(body.response_format, { type: 'json_object' })
    assert.equal(body.messages[0]?.role, 'system')
    assert.ok(body.messages[0]?.content.includes(JSON.stringify(object)))
    assert.equal(body.messages[0]?.content, instructionOf(form, 'json_object'))
    assert.deepEqual(body.messages.slice(1), callers)
  })

  it('schema of a type other than object, json_object: no response_format, which would force an object', () => {
    const body = sent(schemaForm(list, false), 'json_object')
    assert.equal(body.response_format, undefined)
    assert.ok(body.messages[0]?.content.includes(JSON.stringify(list)))
  })

  it('the schema of any object: json_object and an instruction', () => {
    const form = schemaForm({ type: 'object' }, false)
    const body = sent(form, 'json_schema')
    assert.deepEqual(body.response_format, { type: 'json_object' })
    assert.match(body.messages[0]?.content ?? '', /JSON/)
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
      const { instruction, ...rest } = requestFormat(form, 'developer_as_system', supported)
      assert.deepEqual(rest, { roles: 'developer_as_system', ...(mode && { json_mode: mode }) })
      assert.equal(instruction !== undefined, mode === 'instruction' || mode === 'json_object')
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
      const prompt: Prompt = { account: 'acme', messagesJson: JSON.stringify(callers), form }
      const format = requestFormat(form, 'native', 'json_schema')
      const other = withoutSchema(form, format)
      assert.equal(other?.json_mode, mode)
      assert.ok(other.instruction?.includes(JSON.stringify(schema)))
      const body = JSON.parse(requestBody('m', prompt, other)) as Sent
      assert.deepEqual(body.response_format, mode === 'json_object' ? { type: 'json_object' } : undefined)
      const last = mode === 'json_object' ? withoutSchema(form, other) : other
      assert.deepEqual(last, { ...other, json_mode: 'instruction' })
      assert.equal(withoutSchema(form, last), null)
    })
  }

  it('is asked the same way again if there was no schema', () => {
    for (const form of [{ kind: 'text' }, { kind: 'json' }] as const) {
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
    const prompt: Prompt = { account: 'acme', messagesJson: JSON.stringify(messages), form: { kind: 'text' } }
    const body = requestBody('m', prompt, { roles: 'developer_as_system' })
    const expected = messages.map(({ role, content }) => ({
      role: role === 'user' ? role : 'system',
      content,
    }))
    assert.deepEqual((JSON.parse(body) as Sent).messages, expected)
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
