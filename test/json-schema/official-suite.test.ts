/**
 * The official test suite of JSON Schema: every case is judged correctly, except for groups that are rejected for a known
 * reason. Their number must not change unnoticed.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkAnswer, readSchema } from 'parley-json-schema'
import { FORMAT_NAMES } from '../../json-schema/src/string-formats.ts'

const SUITE = join(import.meta.dirname, 'official-suite')

interface Group {
  readonly description: string
  readonly schema: unknown
  readonly tests: readonly Case[]
}

interface Case {
  readonly description: string
  readonly data: unknown
  readonly valid: boolean
}

function groupsOf(...path: string[]): Group[] {
  return JSON.parse(readFileSync(join(SUITE, ...path), 'utf8'))
}

/** Cases that are deliberately judged differently from the suite. */
const OTHERWISE: ReadonlySet<string> = new Set([
  // A `$schema` that is not a known draft is listed as not followed, and keywords have their meaning in the newest draft.
  'vocabulary.json: schema that uses custom metaschema with with no validation vocabulary: no validation: invalid number, but it still validates',
])

/** The cases of the group that are judged differently; empty if all are correct. */
function wrongCases(name: string, schema: unknown, { tests }: Group): string[] {
  const read = readSchema(schema)
  assert.ok(read.ok)
  return tests.flatMap(({ description, data, valid }) => {
    const { ok } = checkAnswer(read.schema, data)
    return ok === valid ? [] : [`${name}: ${description}`]
  })
}

/** Whether the value contains, at any depth, an entry that `isMeant` accepts. */
function contains(value: unknown, isMeant: (name: string, value: unknown) => boolean): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([name, inner]) => isMeant(name, inner) || contains(inner, isMeant))
}

/** A reason to reject a schema: the rule's message, and what such a schema contains. */
interface Reason {
  readonly rule: RegExp
  readonly applies: (schema: unknown) => boolean
  /** Whether every schema to which it applies is rejected, if only for another reason. */
  readonly always: boolean
}

const REASONS = {
  /** The root is not an object, so it does not describe a structured answer. */
  booleanRoot: {
    rule: /^must be an object$/,
    applies: (schema) => typeof schema === 'boolean',
    always: true,
  },
  /** Nothing is fetched, not even the schema of a draft. */
  remoteRef: {
    rule: /^must refer to a part of this schema/,
    applies: (schema) => contains(schema, (name, to) => name === '$ref' && !`${to}`.startsWith('#')),
    always: false,
  },
  /** A nested `$id` would change the target of each `$ref` below it. */
  nestedId: {
    rule: /^is only supported at the root/,
    applies: (schema) => Object.values(schema as object).some((at) => contains(at, (name) => name === '$id')),
    always: false,
  },
  dynamicRef: {
    rule: /^is not supported; use \$ref/,
    applies: (schema) => contains(schema, (name) => name === '$dynamicRef'),
    always: true,
  },
  /** These keywords depend on which branches of others an answer takes. */
  unevaluated: {
    rule: /^is not supported; put the properties or items/,
    applies: (schema) => contains(schema, (name) => /^unevaluated(Properties|Items)$/.test(name)),
    always: true,
  },
} satisfies Readonly<Record<string, Reason>>

/** How many groups of each draft are rejected, by reason. */
const DRAFTS = [
  {
    draft: 'draft2020-12',
    uri: 'https://json-schema.org/draft/2020-12/schema',
    rejected: { booleanRoot: 2, remoteRef: 21, nestedId: 29, dynamicRef: 2, unevaluated: 63 },
  },
  {
    draft: 'draft7',
    uri: 'http://json-schema.org/draft-07/schema#',
    rejected: { booleanRoot: 2, remoteRef: 9, nestedId: 15, dynamicRef: 0, unevaluated: 0 },
  },
] as const

for (const { draft, uri, rejected } of DRAFTS) {
  test(`the required tests of ${draft}: each group is judged right, or rejected for a known reason`, (t) => {
    const wrong: string[] = []
    const seen = { groups: 0, cases: 0 }
    const found = { booleanRoot: 0, remoteRef: 0, nestedId: 0, dynamicRef: 0, unevaluated: 0 }
    for (const file of readdirSync(join(SUITE, draft)).filter((name) => name.endsWith('.json'))) {
      for (const group of groupsOf(draft, file)) {
        const name = `${file}: ${group.description}`
        const { schema } = group
        const inDraft = typeof schema === 'object' ? { $schema: uri, ...schema } : schema
        const read = readSchema(inDraft)
        seen.groups++
        if (read.ok) {
          const isRejected = Object.values(REASONS).some(({ always, applies }) => always && applies(schema))
          assert.ok(!isRejected, `${name} is accepted`)
          seen.cases += group.tests.length
          wrong.push(...wrongCases(name, inDraft, group))
        } else {
          const names = Object.keys(REASONS) as (keyof typeof REASONS)[]
          const reason = names.find((one) => REASONS[one].rule.test(read.rule))
          assert.ok(reason && REASONS[reason].applies(schema), `${name}: ${read.path} ${read.rule}`)
          found[reason]++
        }
      }
    }
    t.diagnostic(JSON.stringify({ ...seen, ...found, wrong: wrong.length }))
    assert.deepEqual(
      wrong.filter((name) => !OTHERWISE.has(name)),
      [],
    )
    assert.deepEqual(found, rejected)
  })
}

test('every case of every format that is checked is judged right', (t) => {
  let cases = 0
  for (const format of FORMAT_NAMES) {
    for (const group of groupsOf('draft2020-12', 'optional', 'format', `${format}.json`)) {
      cases += group.tests.length
      assert.deepEqual(wrongCases(format, group.schema, group), [])
    }
  }
  t.diagnostic(`${cases} cases`)
})
