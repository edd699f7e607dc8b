/** Tests the report of the long run, with the real runner on test files created here. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'

const REPORTER = new URL('./report.ts', import.meta.url).href
const RUN = fileURLToPath(new URL('./run.ts', import.meta.url))

interface Run {
  readonly code: number
  readonly terminal: string
  readonly report: readonly string[]
}

/** One of these variables tells a runner that it runs inside another one. The other tells a test that this is a long run. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_TEST_CONTEXT: _context, PARLEY_LONG: _long, ...others } = process.env
  return others
}

async function folderWith(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-report-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(folder, name), `import test from 'node:test'\n${text}`)
  }
  return folder
}

function node(args: readonly string[], cwd: string): Promise<Omit<Run, 'report'>> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd, env: environment() }, (error, stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), terminal: stdout + stderr })
    })
  })
}

async function run(t: TestContext, files: Readonly<Record<string, string>>): Promise<Run> {
  const folder = await folderWith(t, files)
  const args = [
    '--test',
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    `--test-reporter=${REPORTER}`,
    '--test-reporter-destination=report.md',
  ]
  const ended = await node([...args, ...Object.keys(files)], folder)
  const text = await readFile(join(folder, 'report.md'), 'utf8')
  // Only durations differ between runs.
  return { ...ended, report: text.replaceAll(/\d+\.\d s/g, 'N s').split('\n') }
}

test('each test that says figures is in the report, by file, with its result', async (t) => {
  const { code, terminal, report } = await run(t, {
    'b.test.mjs': `
      for (const n of [1, 2]) test('number ' + n, (t) => { t.diagnostic(n + ' kills'); t.diagnostic('0 lost') })
      test('says nothing', () => {})
    `,
    'a.test.mjs': `
      test.describe('a suite', () => { test('inside | of it', (t) => t.diagnostic('a|b')) })
      test('above', async (t) => {
        t.diagnostic('of above')
        await t.test('below', (t) => t.diagnostic('of below'))
      })
      test('left out', { skip: 'no strace here' }, () => {})
    `,
    'c.test.mjs': `test('says nothing either', () => {})`,
  })
  assert.equal(code, 0)
  assert.match(terminal, /✔ number 1/, 'the terminal shows what it always shows')
  await t.test('the report names the day and the machine', () => {
    assert.equal(report[0], '# Test report')
    const head = report.join('\n')
    assert.match(head, /\| date \| \d{4}-\d\d-\d\d \d\d:\d\d UTC \|/)
    assert.match(head, /\| machine \| \d+ cores? \(.+\), \d+ GiB, .+ \|/)
    assert.ok(head.includes(`| Node | ${process.version} |`))
  })
  const from = report.indexOf('## a.test.mjs')
  assert.deepEqual(report.slice(from), [
    '## a.test.mjs',
    '',
    '| test | result | took | figures |',
    '|---|---|---|---|',
    '| inside \\| of it | passed | N s | a\\|b |',
    '| below | passed | N s | of below |',
    '| above | passed | N s | of above |',
    '| left out | skipped | N s | no strace here |',
    '',
    '## b.test.mjs',
    '',
    '| test | result | took | figures |',
    '|---|---|---|---|',
    '| number 1 | passed | N s | 1 kills<br>0 lost |',
    '| number 2 | passed | N s | 2 kills<br>0 lost |',
    '',
    '## Totals',
    '',
    '| tests | passed | failed | cancelled | skipped | to do | took |',
    '|---|---|---|---|---|---|---|',
    '| 8 | 7 | 0 | 0 | 1 | 0 | N s |',
    '',
  ])
})

test('what failed is in the report whether it says figures or not, with what it said', async (t) => {
  const { code, report } = await run(t, {
    'a.test.mjs': `
      test('fails', () => { throw new Error('1 job is lost\\nand more of it') })
      test.describe('a suite', () => { test('fails inside', (t) => { t.diagnostic('seed 7'); throw new Error('no') }) })
      test('too slow', { timeout: 10 }, (t) => new Promise(() => {
        const busy = setInterval(() => {}, 1000)
        t.signal.addEventListener('abort', () => clearInterval(busy))
      }))
    `,
    'b.test.mjs': `process.exit(3)`,
  })
  assert.notEqual(code, 0)
  const rows = report.filter((line) => /FAILED/.test(line))
  assert.deepEqual(rows, [
    '| fails | FAILED | N s | **1 job is lost** |',
    '| fails inside | FAILED | N s | **no**<br>seed 7 |',
    '| too slow | FAILED | N s | **test timed out after 10ms** |',
    '| b.test.mjs | FAILED | N s | **test failed** |',
  ])
  assert.equal(report.at(-2), '| 4 | 0 | 3 | 1 | 0 | 0 | N s |')
})

test('a long run is one of the files named to it, in their long form, and its report where it is told', async (t) => {
  const folder = await folderWith(t, {
    'a.test.mjs': `test('one', (t) => t.diagnostic('PARLEY_LONG is ' + process.env.PARLEY_LONG))`,
    'b.test.mjs': `test('fails', () => { throw new Error('no') })`,
  })
  const report = join(folder, 'there.md')
  const one = await node([RUN, '--report', report, join(folder, 'a.test.mjs')], folder)
  assert.equal(one.code, 0, one.terminal)
  assert.match(one.terminal, /✔ one/)
  assert.ok(one.terminal.endsWith(`The report is in ${report}\n`))
  assert.match(await readFile(report, 'utf8'), /\| one \| passed \| \d\.\d s \| PARLEY_LONG is 1 \|/)
  const both = await node([RUN, '--report', report, join(folder, '*.mjs')], folder)
  assert.equal(both.code, 1)
})
