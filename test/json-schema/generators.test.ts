/** Schemas as libraries generate them: nearly all are accepted, and those that are not are known. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import Type from 'typebox'
import { checkAnswer } from '../../src/json-schema/check-answer.ts'
import { readSchema } from '../../src/json-schema/read-schema.ts'

/** What the tests of Zod itself expect of `z.toJSONSchema`: the package contains them (MIT, Colin McDonnell). */
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

/** Null for what is no JSON, as a snapshot of something else. */
function parsed(json: string): Readonly<Record<string, unknown>> | null {
  try {
    const { '~standard': _, ...schema } = JSON.parse(json)
    return schema
  } catch {
    return null
  }
}

/** Not a part of a schema, whose definitions stand elsewhere, nor a result of a parse. */
function isWhole(schema: Readonly<Record<string, unknown>>, json: string): boolean {
  const isSchema = ['$schema', 'type', '$ref', 'anyOf', 'oneOf', 'allOf', 'not', 'enum'].some(
    (key) => key in schema,
  )
  const pointsAway =
    /"\$ref": "#\/(\$defs|definitions)\//.test(json) && !('$defs' in schema || 'definitions' in schema)
  return isSchema && !pointsAway
}

/** Rules that reject some of them. */
const KNOWN = [
  // A registry of several schemas, one of which points at another document.
  /must point into this schema/,
  // A pattern of the user's own with a look-ahead.
  /looks ahead or behind/,
  // An override of the user's own, for a type that JSON does not have.
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

const SHAPES = Type.Union([
  Type.Object({ kind: Type.Literal('a'), size: Type.Number() }),
  Type.Object({ kind: Type.Literal('b') }),
])

/** Each with a right and a wrong answer. */
const TYPEBOX: [schema: object, right: unknown, wrong: unknown][] = [
  [Type.Record(Type.String(), Type.Number()), { a: 1 }, { a: 'x' }],
  [Type.Record(Type.Union([Type.Literal('a'), Type.Literal('b')]), Type.Number()), { a: 1, b: 2 }, { a: 1 }],
  [Type.Record(Type.String({ pattern: '^n' }), Type.Number()), { n: 1 }, { n: 'x' }],
  [Type.Tuple([Type.String(), Type.Number()]), ['a', 1], ['a', 1, 2]],
  [SHAPES, { kind: 'b' }, { kind: 'a' }],
  [
    Type.Intersect([Type.Object({ a: Type.String() }), Type.Object({ b: Type.String() })]),
    { a: '', b: '' },
    { a: '' },
  ],
  [Type.Array(Type.String(), { uniqueItems: true }), ['a', 'b'], ['a', 'a']],
  [Type.Readonly(Type.Object({ a: Type.Optional(Type.Integer()) })), {}, { a: 1.5 }],
  [Type.Enum(['a', 'b']), 'a', 'c'],
  [Type.Partial(Type.Object({ a: Type.String() })), {}, { a: 1 }],
  [Type.TemplateLiteral([Type.Literal('a-'), Type.Number()]), 'a-1', 'b'],
  [Type.Never(), undefined, 1],
]

test('records, tuples, unions and intersections of TypeBox are enforced', () => {
  for (const [type, right, wrong] of TYPEBOX) {
    const json = JSON.stringify(type)
    const read = readSchema(JSON.parse(json))
    assert.ok(read.ok, `${json}: ${read.ok || read.rule}`)
    if (right !== undefined) assert.ok(checkAnswer(read.schema, right).ok, json)
    assert.ok(!checkAnswer(read.schema, wrong).ok, json)
  }
})
