/** Tests that the client accepts the schemas of every library, in the library's own form if it has a standard interface. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toStandardJsonSchema } from '@valibot/to-json-schema'
import * as effect from 'effect/Schema'
import { readSchema } from 'parley-json-schema'
import { type AnswerSchema, type JobFields, jsonSchema } from '../../client/src/index.ts'
import { LIBRARIES } from '../json-schema/emitted/all.ts'
import { EFFECT } from '../json-schema/emitted/effect.ts'
import type { Emitted } from '../json-schema/emitted/emitted.ts'
import { VALIBOT } from '../json-schema/emitted/valibot.ts'
import { onAnyStore } from '../on-each-store.ts'
import { startWithClient } from './client.ts'

const STANDARD = new Map<unknown, () => AnswerSchema>([
  ...VALIBOT.map(({ type }) => [type, () => toStandardJsonSchema(type)] as const),
  ...EFFECT.map(({ type }) => [type, () => standardOfEffect(type)] as const),
])

function standardOfEffect(type: effect.Top): AnswerSchema {
  return effect.toStandardSchemaV1(effect.toStandardJSONSchemaV1(type as effect.Codec<unknown>))
}

/** Zod and ArkType implement Standard JSON Schema; TypeBox and zod-to-json-schema write plain JSON Schemas. */
function answerSchemaOf({ type, schema }: Emitted): AnswerSchema {
  const standard = STANDARD.get(type)
  if (standard !== undefined) return standard()
  const props =
    typeof type === 'function' || typeof type === 'object' ? Reflect.get(type ?? {}, '~standard') : null
  return props?.jsonSchema === undefined ? jsonSchema(schema) : (type as AnswerSchema)
}

onAnyStore(() => {
  test('the schemas of every library are sent and accepted', async (t) => {
    const { client } = await startWithClient(t)
    const jobs = Object.values(LIBRARIES)
      .flat()
      .filter(({ schema }) => readSchema(schema).ok)
      .map(
        (emitted): JobFields => ({
          model: 'gpt-5-mini',
          messages: [{ role: 'user', content: 'Write an answer.' }],
          response_format: { format: 'json', schema: answerSchemaOf(emitted) },
        }),
      )
    const ids = await client.messages.createBatch(jobs)
    t.diagnostic(`${ids.length} schemas`)
    assert.ok(ids.length > 300 && ids.length === jobs.length)
  })
})
