/** Tests the tool that makes random mistakes: its operators on small sources, and whole runs on a project of two files. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { CLONE } from '../support/test-files.ts'
import { choose, type Mutant, mutantOf } from './choose.ts'
import { editsOf } from './operators.ts'
import { Report, tableOf } from './report.ts'
import { runTests } from './run-tests.ts'
import { SERVICE, TestPlan } from './test-plan.ts'
import { TreeCopy } from './tree-copy.ts'
import { type TryOptions, tryMutant } from './try-mutant.ts'

const EXAMPLES: readonly (readonly [operator: string, source: string, mutants: readonly string[]])[] = [
  ['negated condition', 'if (a) b()', ['if (!(a)) b()']],
  ['dropped !', 'x = !a', ['x = a']],
  ['shifted comparison', 'x = a < b', ['x = a <= b']],
  ['shifted comparison', 'x = a === b', ['x = a !== b']],
  ['other calculation', 'x = a + b', ['x = a - b']],
  ['other connective', 'x = a && b', ['x = (a || b)']],
  ['dropped condition', 'x = a && b', ['x = (a)', 'x = (b)']],
  ['wrong branch', 'x = a ? b : c', ['x = (b)', 'x = (c)']],
  ['wrong branch', 'x = a ?? b', ['x = (a)', 'x = (b)']],
  ['dropped statement', 'a()\nb()', [';\nb()', 'a()\n;']],
  ['dropped statement', 'for (;;) { if (a) continue }', ['for (;;) { if (a) ; }']],
  ['dropped await', 'await a()', ['a()']],
  ['dropped await', 'async () => await a()', []],
  ['swapped arguments', 'f(a, b.c, () => d)', ['f(b.c, a, () => d)']],
  ['swapped fields', 'x = { a, b: c }', ['x = { a: c, b: a }']],
  ['other field', 'x = a.b + a.c', ['x = a.c + a.c', 'x = a.b + a.b']],
  ['removed bound', 'x = Math.min(a, b)', ['x = Math.max(a, b)', 'x = (a)', 'x = (b)']],
  ['off by one', 'x = a[0] + 2', ['x = a[1] + 2', 'x = a[0] + 3', 'x = a[0] + 1']],
  ['off by one', 'x = a > 60_000', []],
  ['other constant', 'x = { a: true }', ['x = { a: false }']],
  [
    'returned constant',
    'function f(): boolean { return a }',
    ['true', 'false'].map((it) => `function f(): boolean { return ${it} }`),
  ],
  [
    'returned constant',
    'async function f(): Promise<string[]> { return a }',
    ['async function f(): Promise<string[]> { return [] }'],
  ],
]

const SQL: typeof EXAMPLES = [
  ['SQL: shifted comparison', '`select a from b where c < 1`', ['`select a from b where c <= 1`']],
  ['SQL: other connective', "'select a from b where c and d'", ["'select a from b where c or d'"]],
  ['SQL: other connective', "'where c between 1 and 2'", []],
  ['SQL: other connective', '`select a from b -- c and d\nwhere e`', []],
  ['SQL: dropped limit', '`select a from b limit $1`', ['`select a from b `']],
  [
    'SQL: dropped limit',
    ['`select a from b limit $', '{c} for update`'].join(''),
    ['`select a from b  for update`'],
  ],
  ['SQL: other bound', '`select min(a) from b`', ['`select max(a) from b`']],
  ['SQL: other order', '`select a from b order by a`', ['`select a from b order by a desc`']],
  ['SQL: other connective', "'this and that'", []],
]

for (const [examples, hasSql] of [
  [EXAMPLES, false],
  [SQL, true],
] as const) {
  for (const [operator, source, mutants] of examples) {
    test(`${operator}: ${source}`, () => {
      const edits = editsOf(source, hasSql).filter((edit) => edit.operator === operator)
      assert.deepEqual(
        edits.map((edit) => mutantOf('a.ts', source, edit).text),
        mutants,
      )
    })
  }
}

test('types, imports and types of calls are not changed', () => {
  const source =
    "import { a } from './a.ts'\nlet b: 'x' | true\nlet c = d as { e: false }\ninterface F { g: 1 }"
  assert.deepEqual(editsOf(source, false), [])
})

const SOURCE = `/** Whether a number is small. */
export function isSmall(value: number, limit: number): boolean {
  let steps = 0
  while (steps < 1) steps += 1
  return value < limit
}
`
const TEST = `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSmall } from "./is-small.ts"

test('far below and far above', () => {
  assert.deepEqual([isSmall(1, 5), isSmall(9, 5)], [true, false])
})
`
const FILE = 'src/queue/is-small.ts'

/** The test of the project does not test the limit itself, so a mutant of the limit survives. */
function makeProject(t: TestContext): string {
  const root = mkdtempSync(join(tmpdir(), 'parley-mutants-test-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  mkdirSync(join(root, 'src/queue'), { recursive: true })
  writeFileSync(join(root, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(root, 'tsconfig.json'), readFileSync(join(CLONE, 'tsconfig.json')))
  writeFileSync(join(root, FILE), SOURCE)
  writeFileSync(join(root, 'src/queue/is-small.test.ts'), TEST)
  symlinkSync(join(CLONE, 'node_modules'), join(root, 'node_modules'))
  return root
}

function copyOf(t: TestContext, root: string): TreeCopy {
  const copy = new TreeCopy(root)
  t.after(() => copy.remove())
  return copy
}

function mutantThat(isMeant: (text: string) => boolean): Mutant {
  const mutants = editsOf(SOURCE, false).map((edit) => mutantOf(FILE, SOURCE, edit))
  const found = mutants.find(({ text }) => isMeant(text))
  assert.ok(found)
  return found
}

function optionsFor(root: string, copy: TreeCopy): TryOptions {
  const plan = new TestPlan(root)
  return { plan, copy, idleMs: 60_000, environment: {}, known: new Map(), print: () => {} }
}

const SURVIVOR = mutantThat((text) => text.includes('value <= limit'))

test('a mutant is found, survives or is invalid, and its source stays as it was', async (t) => {
  const root = makeProject(t)
  const copy = copyOf(t, root)
  const options = optionsFor(root, copy)
  const outcomeOf = async (mutant: Mutant) => {
    const { seconds: _, ...outcome } = await tryMutant(mutant, options)
    return outcome
  }
  const ran = ['nearest tests (1)']
  const by = 'src/queue/is-small.test.ts > far below and far above'
  const found = mutantThat((text) => text.includes('return true'))
  assert.deepEqual(await outcomeOf(found), { result: 'found', ran, stage: 'nearest tests', by })
  assert.deepEqual(await outcomeOf(SURVIVOR), { result: 'survived', ran })
  const invalid = { ...SURVIVOR, text: `${SOURCE}\nexport const wrong: string = 1\n` }
  assert.deepEqual(await outcomeOf(invalid), { result: 'invalid', ran: [] })
  assert.deepEqual(
    [root, copy.root].map((it) => readFileSync(join(it, FILE), 'utf8')),
    [SOURCE, SOURCE],
  )
})

test('a test that fails without a mutant finds none', async (t) => {
  const root = makeProject(t)
  writeFileSync(join(root, 'src/queue/is-small.test.ts'), TEST.replace('true, false', 'false, false'))
  const printed: string[] = []
  const options = optionsFor(root, copyOf(t, root))
  const { result, ran } = await tryMutant(SURVIVOR, { ...options, print: (text) => printed.push(text) })
  assert.deepEqual([result, ran], ['survived', []])
  assert.match(
    printed.join(),
    /^Not used, because it fails without a mutant .*: src\/queue\/is-small\.test\.ts$/,
  )
})

test('a mutant that does not end is found', async (t) => {
  const copy = copyOf(t, makeProject(t))
  copy.replace(FILE, mutantThat((text) => text.includes('while (steps < 1) ;')).text)
  const run = { files: ['src/queue/is-small.test.ts'], environment: {}, idleMs: 2000, untilFailure: true }
  const { failure } = await runTests(copy, run)
  assert.match(failure ?? '', /> no result for 2 s$/)
})

test('a copy leaves nothing behind', (t) => {
  const copy = new TreeCopy(makeProject(t))
  copy.replace(FILE, '')
  copy.remove()
  assert.ok(!existsSync(join(copy.root, '..')))
})

test('the same seed chooses the same mutants, and a smaller count the first of them', (t) => {
  const root = makeProject(t)
  const idsOf = (count: number, seed: number) =>
    choose(root, { count, seed, folders: ['src/queue'] }).map(({ id }) => id)
  const all = idsOf(100, 1)
  assert.equal(new Set(all).size, all.length)
  assert.deepEqual(idsOf(100, 1), all)
  assert.deepEqual(idsOf(3, 1), all.slice(0, 3))
  assert.notDeepEqual(idsOf(100, 2), all)
})

test('files of this project meet all stages that load them, which are there', () => {
  const plan = new TestPlan(CLONE)
  const stagesOf = (file: string) => plan.stagesFor(file).map(({ name }) => name)
  const all = ['nearest tests', 'contract', 'simulation', 'service']
  assert.deepEqual(stagesOf('src/store/sqlite/claim.ts'), all)
  assert.deepEqual(stagesOf('src/store/postgres/accept.ts'), all)
  assert.deepEqual(stagesOf('src/callbacks/retry-schedule.ts'), ['nearest tests', 'simulation', 'service'])
  assert.deepEqual(stagesOf('client/src/backoff.ts'), ['nearest tests', 'service'])
  assert.deepEqual(stagesOf('json-schema/src/check-values.ts'), ['nearest tests', 'simulation', 'service'])
  assert.deepEqual(plan.stagesFor('src/queue/enqueue.ts').at(-1)?.files, SERVICE)
})

test('a diff shows the lines around the change', () => {
  assert.equal(
    SURVIVOR.diff,
    `--- a/${FILE}
+++ b/${FILE}
@@ -3,5 +3,5 @@
   let steps = 0
   while (steps < 1) steps += 1
-  return value < limit
+  return value <= limit
 }
 
`,
  )
})

test('a report continues where it stopped, and counts by folder', (t) => {
  const file = join(makeProject(t), 'report.jsonl')
  const [first, second, third] = ['1', '2', '3'].map((id) => ({ ...SURVIVOR, id }))
  assert.ok(first && second && third)
  const outcome = { ran: [], seconds: 1 }
  const report = new Report(file)
  report.add(first, { ...outcome, result: 'found' })
  report.add(second, { ...outcome, result: 'survived' })
  const again = new Report(file)
  const entries = [first, second, third].map((mutant) => again.entryOf(mutant))
  assert.deepEqual(
    entries.map((entry) => entry?.result),
    ['found', 'survived', undefined],
  )
  assert.match(
    tableOf(entries.flatMap((entry) => entry ?? [])),
    /^\| src\/queue \| 1 \| 1 \| 0 \| 0 \| 50% \|$/m,
  )
})
