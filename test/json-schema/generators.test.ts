/** Tests schemas that libraries generate. The checker must accept nearly all of them. The rejected ones are listed. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { checkAnswer, readSchema } from 'parley-json-schema'
import { checkSchema } from '../../src/dashboard/page/playground/draft.ts'
import { LIBRARIES, LOOKS_AROUND } from './emitted/all.ts'
import { PYDANTIC } from './emitted/pydantic.ts'

/** Zod's package contains its own tests, with the results that they expect of `z.toJSONSchema` (MIT, Colin McDonnell). */
function zodSnapshots(): Map<string, unknown> {
  const folder = join(dirname(fileURLToPath(import.meta.resolve('zod/package.json'))), 'src/v4/classic/tests')
  const found = new Map<string, unknown>()
  for (const file of globSync('to-json-schema*.test.ts', { cwd: folder })) {
    const text = readFileSync(join(folder, file), 'utf8')
    for (const [, snapshot = ''] of text.matchAll(/toMatchInlineSnapshot\(\s*`\s*(\{.*?\n\s*\})\s*`/gs)) {
      const json = snapshot.replaceAll('\\\\', '\\').replace(/,(\s*[}\]])/g, '$1')
      const schema = parsed(json)
      if (schema !== null && isWhole(schema, json)) found.set(JSON.stringify(schema), schema)
    }
  }
  return found
}

/** Returns null for anything that is not JSON, such as another kind of snapshot. */
function parsed(json: string): Readonly<Record<string, unknown>> | null {
  try {
    const { '~standard': _, ...schema } = JSON.parse(json)
    return schema
  } catch {
    return null
  }
}

/** A fragment whose definitions are elsewhere is no whole schema, and neither is the result of a parse. */
function isWhole(schema: Readonly<Record<string, unknown>>, json: string): boolean {
  const isSchema = ['$schema', 'type', '$ref', 'anyOf', 'oneOf', 'allOf', 'not', 'enum'].some(
    (key) => key in schema,
  )
  const pointsAway =
    /"\$ref": "#\/(\$defs|definitions)\//.test(json) && !('$defs' in schema || 'definitions' in schema)
  return isSchema && !pointsAway
}

/** Only these rules may reject schemas of the generators. */
const KNOWN = [
  // A registry of several schemas refers to another document.
  /must refer to a part of this schema/,
  // A custom pattern has a look-ahead.
  /has a lookahead or lookbehind/,
  // A custom override defines a type that JSON does not have.
  /^must be one of null, boolean/,
]

test('at least 95% of the schemas in the tests of Zod are accepted, and the others for known reasons', (t) => {
  const schemas = [...zodSnapshots().values()]
  const rejected = schemas.map(readSchema).filter((read) => !read.ok)
  t.diagnostic(`${schemas.length} schemas, ${rejected.length} rejected`)
  assert.ok(schemas.length > 130, `${schemas.length}`)
  for (const { path, rule } of rejected) {
    assert.ok(
      KNOWN.some((known) => known.test(rule)),
      `${path} ${rule}`,
    )
  }
  assert.ok(rejected.length <= schemas.length * 0.05, `${rejected.length} of ${schemas.length}`)
})

const REJECTED_OF: Readonly<Record<string, number>> = { Valibot: 1, ArkType: 3 }

for (const [library, emitted] of Object.entries(LIBRARIES)) {
  test(`what ${library} emits is accepted, and judged as the library does`, (t) => {
    const rejected: string[] = []
    for (const { schema, right, wrong, accepts } of emitted) {
      const json = JSON.stringify(schema)
      for (const answer of right)
        assert.ok(accepts(answer), `${library} rejects ${JSON.stringify(answer)}: ${json}`)
      for (const answer of wrong)
        assert.ok(!accepts(answer), `${library} accepts ${JSON.stringify(answer)}: ${json}`)
      const read = readSchema(schema)
      assert.equal(checkSchema(json).kind, read.ok ? 'good' : 'fault', json)
      if (!read.ok) {
        assert.match(read.rule, LOOKS_AROUND, json)
        rejected.push(json)
        continue
      }
      for (const answer of right) assert.deepEqual(checkAnswer(read.schema, answer), { ok: true }, json)
      for (const answer of wrong)
        assert.ok(!checkAnswer(read.schema, answer).ok, `${JSON.stringify(answer)}: ${json}`)
    }
    t.diagnostic(`${emitted.length} schemas, ${rejected.length} rejected`)
    assert.equal(rejected.length, REJECTED_OF[library] ?? 0, rejected.join('\n'))
  })
}

test('what pydantic writes is accepted, and enforced', () => {
  for (const [schema, right, wrong] of PYDANTIC) {
    const json = JSON.stringify(schema)
    const read = readSchema(JSON.parse(json))
    assert.ok(read.ok, `${json}: ${read.ok || `${read.path} ${read.rule}`}`)
    for (const answer of right) assert.deepEqual(checkAnswer(read.schema, answer), { ok: true }, json)
    for (const answer of wrong) {
      assert.ok(!checkAnswer(read.schema, answer).ok, `${JSON.stringify(answer)}: ${json}`)
    }
  }
})
