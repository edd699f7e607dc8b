/**
 * The official test suite of JSON Schema: every case is judged correctly, except for groups that are rejected for a known
 * reason.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkAnswer, readSchema } from 'parley-json-schema'
import { FORMAT_NAMES } from '../../json-schema/src/string-formats.ts'
import { REASONS, REJECTED, type Reason } from './rejected-groups.ts'

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

/** Why a group is on the list, by `file: description`. */
function listed(draft: keyof typeof REJECTED): Map<string, Reason> {
  const reasons = new Map<string, Reason>()
  for (const [reason, files] of Object.entries(REJECTED[draft])) {
    for (const [file, descriptions] of Object.entries(files)) {
      for (const description of descriptions) reasons.set(`${file}: ${description}`, reason as Reason)
    }
  }
  return reasons
}

const DRAFTS = [
  { draft: 'draft2020-12', uri: 'https://json-schema.org/draft/2020-12/schema', most: 0.335 },
  { draft: 'draft7', uri: 'http://json-schema.org/draft-07/schema#', most: 0.11 },
] as const

for (const { draft, uri, most } of DRAFTS) {
  test(`the required tests of ${draft}: each group is judged right, or rejected for the reason on the list`, (t) => {
    const reasons = listed(draft)
    const wrong: string[] = []
    const seen = { groups: 0, rejected: 0, cases: 0 }
    for (const file of readdirSync(join(SUITE, draft)).filter((name) => name.endsWith('.json'))) {
      for (const group of groupsOf(draft, file)) {
        const name = `${file}: ${group.description}`
        const { schema } = group
        const inDraft = typeof schema === 'object' ? { $schema: uri, ...schema } : schema
        const read = readSchema(inDraft)
        const reason = reasons.get(name)
        seen.groups++
        if (read.ok) {
          assert.equal(reason, undefined, `${name} is accepted now: it must leave the list`)
          seen.cases += group.tests.length
          wrong.push(...wrongCases(name, inDraft, group))
        } else {
          assert.ok(reason !== undefined, `${name} is rejected: ${read.path} ${read.rule}`)
          assert.match(read.rule, REASONS[reason], name)
          reasons.delete(name)
          seen.rejected++
        }
      }
    }
    t.diagnostic(JSON.stringify({ ...seen, wrong: wrong.length }))
    assert.deepEqual(
      wrong.filter((name) => !OTHERWISE.has(name)),
      [],
    )
    assert.deepEqual([...reasons.keys()], [], 'the list names groups that the suite does not have')
    assert.ok(seen.rejected <= seen.groups * most, `${seen.rejected} of ${seen.groups}`)
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
