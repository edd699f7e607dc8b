/**
 * Tests answers that are typed by a schema: what the compiler knows about them, checked by `tsc`, and what the client makes of
 * them.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toStandardJsonSchema } from '@valibot/to-json-schema'
import * as effect from 'effect/Schema'
import { readSchema } from 'parley-json-schema'
import * as z from 'zod'
import {
  type AnswerSchema,
  completed,
  type JobFields,
  jsonSchema,
  type Parley,
  ResponseContentError,
  SchemaError,
  webhooks,
  withJsonSchema,
} from '../../client/src/index.ts'
import { LIBRARIES } from '../json-schema/emitted/all.ts'
import { EFFECT } from '../json-schema/emitted/effect.ts'
import type { Emitted } from '../json-schema/emitted/emitted.ts'
import { VALIBOT } from '../json-schema/emitted/valibot.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import { shareStage } from '../v1/shared-stage.ts'
import { clientOf, reasonOf } from './client.ts'

const River = z.strictObject({
  river: z.string(),
  km: z.number(),
  flow: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('steady') }),
    z.object({ kind: z.literal('tidal'), metres: z.number() }),
  ]),
  names: z.record(z.string(), z.string()),
})
const RHINE = { river: 'Rhine', km: 1230, flow: { kind: 'steady' }, names: { nl: 'Rijn' } }

const AllKinds = z.object({
  pair: z.tuple([z.string(), z.number()]),
  more: z.tuple([z.string()], z.boolean()),
  counts: z.record(z.enum(['a', 'b']), z.number()),
  fixed: z.object({ a: z.string() }).readonly(),
  period: z.iso.duration(),
  host: z.hostname(),
  file: z.base64(),
  token: z.jwt(),
  prefixed: z.string().startsWith('a'),
  either: z.xor([z.string(), z.number()]),
  both: z.intersection(z.looseObject({ a: z.string() }), z.looseObject({ b: z.string() })),
  named: z.string().meta({ title: 'Name', examples: ['x'], deprecated: true, order: 1 }),
  tags: z.array(z.string()).transform((tags) => new Set(tags)),
})
const ALL_KINDS_RIGHT = {
  pair: ['a', 1],
  more: ['a', true, false],
  counts: { a: 1, b: 2 },
  fixed: { a: 'x' },
  period: 'P1DT2H',
  host: 'example.com',
  file: 'YQ==',
  token: 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl',
  prefixed: 'abc',
  either: 1,
  both: { a: 'x', b: 'y' },
  named: 'x',
  tags: ['x', 'y'],
}

const asked = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'A river?' }] } as const

/** Fails to compile unless both types are exactly the same. */
function sameType<A, B>(
  ..._: (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? [] : ['they differ']
) {}

const STANDARD = new Map<unknown, () => AnswerSchema>([
  ...VALIBOT.map(({ type }) => [type, () => toStandardJsonSchema(type)] as const),
  ...EFFECT.map(({ type }) => [type, () => standardOfEffect(type)] as const),
])

function standardOfEffect(type: effect.Top): AnswerSchema {
  return effect.toStandardSchemaV1(effect.toStandardJSONSchemaV1(type as effect.Codec<unknown>))
}

/** Zod and ArkType implement Standard JSON Schema. TypeBox and zod-to-json-schema write plain JSON Schemas. */
function answerSchemaOf({ type, schema }: Emitted): AnswerSchema {
  const standard = STANDARD.get(type)
  if (standard !== undefined) return standard()
  const props =
    typeof type === 'function' || typeof type === 'object' ? Reflect.get(type ?? {}, '~standard') : null
  return props?.jsonSchema === undefined ? jsonSchema(schema) : (type as AnswerSchema)
}

onAnyStore(() => {
  const enter = shareStage()
  const start = async (answer: unknown) => {
    const stage = await enter(() => reply.json(answer))
    return { ...stage, client: clientOf(stage.parley, stage.key) }
  }

  test("a library's schema is sent as JSON Schema, and makes the type of the answer", async () => {
    const { client, models } = await start(RHINE)
    const job = await client.messages.createAndWait({
      ...asked,
      response_format: { format: 'json', schema: River },
    })
    const content = job.result.response_content
    sameType<typeof content, z.output<typeof River>>()
    assert.deepEqual(content, RHINE)
    const sent = models.requests[0]?.body.response_format
    assert.ok(sent?.type === 'json_schema')
    const { properties, additionalProperties } = sent.json_schema.schema as Record<string, never>
    assert.deepEqual(Object.keys(properties ?? {}), ['river', 'km', 'flow', 'names'])
    assert.equal(additionalProperties, false)
  })

  test('every kind of schema of the library is accepted, and what the server does not check is checked here', async () => {
    const { client, models } = await start(ALL_KINDS_RIGHT)
    const format = { format: 'json', schema: AllKinds } as const
    const job = await client.messages.createAndWait({ ...asked, response_format: format })
    assert.deepEqual(job.result.response_content, { ...ALL_KINDS_RIGHT, tags: new Set(ALL_KINDS_RIGHT.tags) })
    assert.equal(models.requests.length, 1)
    models.script = () => reply.json({ ...ALL_KINDS_RIGHT, token: 'not a token' })
    const messages = [{ role: 'user', content: 'Again.' }] as const
    const again = client.messages.createAndWait({ ...asked, messages, response_format: format })
    assert.equal((await reasonOf(again, ResponseContentError)).issues[0]?.path?.[0], 'token')
  })

  test('create, wait, waitAll and retrieve are typed alike', async () => {
    const { client } = await start(RHINE)
    const format = { format: 'json', schema: River } as const
    const created = await client.messages.create({ ...asked, response_format: format })
    // @ts-expect-error: it may not have ended.
    void created.result
    assert.ok(created.status === 'completed')
    sameType<typeof created.result.response_content, z.output<typeof River>>()
    const [id = ''] = await client.messages.createBatch([{ ...asked, response_format: format }])
    const ended = await client.messages.wait(id, { schema: River })
    // @ts-expect-error: it may have failed.
    void ended.result.response_content
    assert.equal(completed(ended).result.response_content.km, 1230)
    const [again] = await client.messages.waitAll([id], { schema: River })
    assert.ok(again?.status === 'completed')
    sameType<typeof again.result.response_content.river, string>()
    const read = await client.messages.retrieve(id, { schema: River })
    assert.ok(read.status === 'completed')
    sameType<typeof read.result.response_content.river, string>()
    assert.deepEqual(read.result.response_content, RHINE)
  })

  test('the call returns what the schema makes of the answer, in value and type', async () => {
    const { client } = await start({ km: '1230' })
    const schema = z.object({ km: z.string().transform(Number), since: z.string().default('always') })
    const job = await client.messages.createAndWait({ ...asked, response_format: { format: 'json', schema } })
    sameType<typeof job.result.response_content, { km: number; since: string }>()
    assert.deepEqual(job.result.response_content, { km: 1230, since: 'always' })
  })

  test('an answer that breaks a rule that JSON Schema cannot express is an error with its issues', async () => {
    const { client } = await start({ km: 7 })
    const schema = z.object({ km: z.number().refine((km) => km % 2 === 0, 'must be even') })
    const call = client.messages.create({ ...asked, response_format: { format: 'json', schema } })
    const { message, content, issues } = await reasonOf(call, ResponseContentError)
    assert.match(message, /km: must be even/)
    assert.deepEqual([content, issues[0]?.path], [{ km: 7 }, ['km']])
  })

  test('a JSON Schema object is typed by hand', async () => {
    const { client } = await start({ river: 'Rhine' })
    const schema = { type: 'object', properties: { river: { type: 'string' } }, required: ['river'] }
    const first = await client.messages.createAndWait<{ river: string }>({
      ...asked,
      response_format: { format: 'json', schema },
    })
    sameType<typeof first.result.response_content, { river: string }>()
    const second = await client.messages.createAndWait({
      ...asked,
      response_format: { format: 'json', schema: jsonSchema<{ river: string }>(schema) },
    })
    sameType<typeof second.result.response_content, { river: string }>()
    assert.deepEqual(second.result, { response_content: { river: 'Rhine' } })
    const third = await client.messages.createAndWait({
      ...asked,
      response_format: { format: 'json', schema },
    })
    sameType<typeof third.result.response_content, unknown>()
  })

  test('a schema of a library without JSON Schema output needs a JSON Schema beside it', async () => {
    const { client } = await start(7)
    const even = {
      '~standard': {
        version: 1,
        vendor: 'a library',
        validate: (value: unknown) =>
          typeof value === 'number' ? { value } : { issues: [{ message: 'no number' }] },
      },
    } as const
    const create = (schema: ReturnType<typeof withJsonSchema<number>>) =>
      client.messages.createAndWait({ ...asked, response_format: { format: 'json', schema } })
    assert.match((await reasonOf(create(even), SchemaError)).message, /a library.*withJsonSchema/)
    assert.equal((await create(withJsonSchema(even, { type: 'number' }))).result.response_content, 7)
    const dates = z.object({ at: z.date() })
    const call = client.messages.create({ ...asked, response_format: { format: 'json', schema: dates } })
    await assert.rejects(call, /zod cannot generate a JSON Schema for this schema: Date/)
  })

  test('numbers keep every digit with a suitable parser', async () => {
    const { parley, key } = await enter(() => reply.text('{"id":12345678901234567890}'))
    const exact = (text: string): unknown =>
      JSON.parse(text, (_key, value, context?: { readonly source?: string }) =>
        typeof value === 'number' && !Number.isSafeInteger(value) && /^\d+$/.test(context?.source ?? '')
          ? BigInt(context?.source ?? '')
          : value,
      )
    const ask = (client: Parley) =>
      client.messages.createAndWait({ ...asked, response_format: { format: 'json' } })
    const rounded = await ask(clientOf(parley, key))
    assert.deepEqual(rounded.result.response_content, { id: 12345678901234567000 })
    const kept = await ask(clientOf(parley, key, { parseJson: exact }))
    assert.deepEqual(kept.result.response_content, { id: 12345678901234567890n })
  })

  test('the schemas of every library are sent and accepted', async (t) => {
    const { parley, key } = await enter()
    const client = clientOf(parley, key)
    const jobs = Object.values(LIBRARIES)
      .flat()
      .filter(({ schema }) => readSchema(schema).ok)
      .map(
        (emitted): JobFields => ({
          ...asked,
          response_format: { format: 'json', schema: answerSchemaOf(emitted) },
        }),
      )
    const ids = await client.messages.createBatch(jobs)
    t.diagnostic(`${ids.length} schemas`)
    assert.ok(ids.length > 300 && ids.length === jobs.length)
  })
})

interface DescribedByAnInterface {
  readonly type: string
}

/** This function is compiled but never called. It contains what the compiler must reject, and some of what it must accept. */
export function compiled(client: Parley, fields: JobFields, schema: DescribedByAnInterface): unknown[] {
  return [
    // @ts-expect-error: a callback belongs to batches.
    client.messages.create({ ...fields, callback: { callback_url: 'https://example.com' } }),
    // @ts-expect-error: a timeout belongs to single creates.
    client.messages.createBatch([{ ...fields, timeout: 30 }]),
    // @ts-expect-error: a schema belongs to json.
    client.messages.create({ ...asked, response_format: { format: 'text', schema: River } }),
    // @ts-expect-error: no such role.
    client.messages.create({ ...fields, messages: [{ role: 'tool', content: '' }] }),
    // @ts-expect-error: no such field.
    client.messages.create({ ...fields, temperature: 1 }),
    client.messages.create<{ river: number }>({
      ...asked,
      // @ts-expect-error: the schema makes another type.
      response_format: { format: 'json', schema: z.object({ river: z.string() }) },
    }),
    client.messages
      .createAndWait({ ...asked, response_format: { format: 'text' } })
      .then((job) => sameType<typeof job.result.response_content, string>()),
    client.messages.create({ ...asked, response_format: { format: 'json', schema } }),
    client.messages.create({ ...asked, response_format: { format: 'json', schema: { type: 'string' } } }),
    client.messages
      .createAndWait(fields)
      .then((job) => sameType<typeof job.result.response_content, unknown>()),
    webhooks.verify('', {}, '', { schema: River }).then((callback) => {
      if (callback.status === 'completed') sameType<typeof callback.result.response_content.km, number>()
    }),
  ]
}
