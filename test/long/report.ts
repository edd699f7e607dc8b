/**
 * Reports for `node --test` what the tests measured, in Markdown. Each file has a table of its tests that failed, report
 * figures (`t.diagnostic`) or give a reason for being skipped, with result and duration. The machine comes first, the totals
 * last.
 *
 *     node --test --test-reporter=./test/long/report.ts --test-reporter-destination=test-report.md …
 */
import { arch, availableParallelism, cpus, platform, release, totalmem } from 'node:os'
import { relative } from 'node:path'
import type { TestEvent } from 'node:test/reporters'

type Result = 'passed' | 'FAILED' | 'skipped' | 'to do'

interface Test {
  readonly name: string
  readonly result: Result
  readonly ms: number
  readonly error: string | null
  /** For a skipped test, this is the reason. */
  readonly figures: string[]
}

export interface Machine {
  readonly date: Date
  readonly cpu: string
  readonly cores: number
  readonly memoryBytes: number
  readonly node: string
  readonly system: string
}

// biome-ignore lint/style/noDefaultExport: node --test expects a default export.
export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  yield* reportOn(thisMachine(), events)
}

export async function* reportOn(machine: Machine, events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  yield headOf(machine)
  const files = new Map<string, Test[]>()
  /** A figure has the place in the code of its test, so it belongs to the last test that was reported for that place. */
  const last = new Map<string, Test>()
  let totals = ''
  for await (const { type, data } of events) {
    if (type === 'test:pass' || type === 'test:fail') {
      // A suite passes or fails with its tests, so it needs no row.
      if (data.details.type === 'suite') continue
      const test = testOf(type, data)
      last.set(placeOf(data), test)
      const file = fileOf(data)
      files.set(file, [...(files.get(file) ?? []), test])
    } else if (type === 'test:diagnostic') {
      last.get(placeOf(data))?.figures.push(data.message)
    } else if (type === 'test:summary' && data.file === undefined) {
      totals = totalsOf(data)
    }
  }
  for (const [file, tests] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) yield sectionOf(file, tests)
  yield totals
}

function headOf({ date, cpu, cores, memoryBytes, node, system }: Machine): string {
  const memory = `${Math.round(memoryBytes / 2 ** 30)} GiB`
  return `# Test report

| | |
|---|---|
| date | ${date.toISOString().slice(0, 16).replace('T', ' ')} UTC |
| machine | ${cores} cores (${cell(cpu)}), ${memory}, ${cell(system)} |
| Node | ${node} |
`
}

function sectionOf(file: string, tests: readonly Test[]): string {
  const telling = tests.filter(({ figures, result }) => figures.length > 0 || result === 'FAILED')
  if (telling.length === 0) return ''
  const rows = telling.map(({ name, result, ms, error, figures }) => {
    const said = [...(error === null ? [] : [`**${cell(error)}**`]), ...figures.map(cell)].join('<br>')
    return `| ${cell(name)} | ${result} | ${seconds(ms)} | ${said} |`
  })
  return `\n## ${file}\n\n| test | result | took | figures |\n|---|---|---|---|\n${rows.join('\n')}\n`
}

function totalsOf({ counts, duration_ms: ms }: Extract<TestEvent, { type: 'test:summary' }>['data']): string {
  const { tests, passed, cancelled, skipped, todo } = counts
  const failed = tests - passed - cancelled - skipped - todo
  return `
## Totals

| tests | passed | failed | cancelled | skipped | to do | took |
|---|---|---|---|---|---|---|
| ${[tests, passed, failed, cancelled, skipped, todo, seconds(ms)].join(' | ')} |
`
}

type Ended = Extract<TestEvent, { type: 'test:pass' | 'test:fail' }>['data']

function testOf(type: 'test:pass' | 'test:fail', data: Ended): Test {
  const { duration_ms: ms } = data.details
  const error = 'error' in data.details ? firstLine(data.details.error) : null
  const figures = typeof data.skip === 'string' ? [data.skip] : []
  return { name: data.name, result: resultOf(type, data), ms, error, figures }
}

function resultOf(type: 'test:pass' | 'test:fail', { skip, todo }: Ended): Result {
  if (skip !== undefined && skip !== false) return 'skipped'
  if (todo !== undefined && todo !== false) return 'to do'
  return type === 'test:pass' ? 'passed' : 'FAILED'
}

/** The runner wraps errors that tests throw. */
function firstLine(error: Error): string {
  const { cause } = error
  const message = cause instanceof Error ? cause.message : error.message
  return message.split('\n', 1)[0] ?? ''
}

interface Place {
  readonly file?: string | undefined
  readonly line?: number | undefined
  readonly column?: number | undefined
}

function placeOf({ file, line, column }: Place): string {
  return `${file}:${line}:${column}`
}

function fileOf({ file }: Place): string {
  return file === undefined ? '(no file)' : relative(process.cwd(), file).replaceAll('\\', '/')
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ')
}

function thisMachine(): Machine {
  return {
    date: new Date(),
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    node: process.version,
    system: `${platform()} ${release()} ${arch()}`,
  }
}
