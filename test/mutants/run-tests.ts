/**
 * Runs test files in one process in the copy of the tree. Ends the process and its children at the first failure, or when
 * nothing is reported for too long.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { SOURCE_FOLDERS } from '../support/test-files.ts'
import type { TreeCopy } from './tree-copy.ts'

export interface TestRun {
  readonly files: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly idleMs: number
  readonly untilFailure: boolean
}

export interface TestResult {
  /** The text is `file > test` for the first failure, or another error. Null means that everything passed. */
  readonly failure: string | null
  readonly passed: readonly string[]
}

const RUN_FILES = new URL('../support/run-files.ts', import.meta.url).href
/**
 * Matches tests about the text of the sources, or about a bug that still exists. Any change could break them, even one that is
 * no mistake.
 */
const NOT_ABOUT_MISTAKES = '/still (has its one place|breaks a rule)/'
const OPTIONS = ['--test-reporter=tap']

const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) endGroup(child)
})

export async function runTests(copy: TreeCopy, run: TestRun): Promise<TestResult> {
  const entry = join(copy.temporary, 'entry.mjs')
  const files = JSON.stringify(run.files.map((file) => join(copy.root, file)))
  const start = `await runFiles(${JSON.stringify(copy.root)}, ${files})`
  writeFileSync(entry, `import { runFiles } from ${JSON.stringify(RUN_FILES)}\n${start}\n`)
  const child = startNode(
    copy,
    [...OPTIONS, `--test-skip-pattern=${NOT_ABOUT_MISTAKES}`, entry],
    run.environment,
  )
  const passed: string[] = []
  let failure: string | null = null
  let file = ''
  const endWith = (reason: string) => {
    failure ??= reason
    endGroup(child)
  }
  const late = () => endWith(`${file} > no result for ${run.idleMs / 1000} s`)
  let timer = setTimeout(late, run.idleMs)
  const exited = once(child, 'close')
  if (child.stdout) {
    for await (const line of createInterface({ input: child.stdout })) {
      clearTimeout(timer)
      timer = setTimeout(late, run.idleMs)
      const [, opened] = /^# Subtest: (.*)/.exec(line) ?? []
      const [, indent, not, name = ''] = /^(\s*)(not )?ok \d+ - (.*)/.exec(line) ?? []
      file = opened ?? file
      if (indent === '' && !not) passed.push(name)
      if (not && run.untilFailure) endWith(`${file} > ${name}`)
      else if (not) failure ??= `${file} > ${name}`
    }
  }
  clearTimeout(timer)
  const [code, signal] = await exited
  running.delete(child)
  if (code !== 0) failure ??= `${file} > the process ended with ${signal ?? code}`
  // A test may have left processes behind.
  endGroup(child)
  copy.renewTemporary()
  return { failure, passed }
}

export async function compiles(copy: TreeCopy): Promise<boolean> {
  const config = 'tsconfig.mutants.json'
  writeFileSync(
    join(copy.root, config),
    JSON.stringify({
      extends: './tsconfig.json',
      compilerOptions: { noUnusedLocals: false, noUnusedParameters: false },
      include: SOURCE_FOLDERS,
      exclude: ['src/dashboard/page', '**/*.test.ts'],
    }),
  )
  const child = startNode(copy, ['node_modules/typescript/bin/tsc', '-p', config], {})
  child.stdout?.resume()
  const [code] = await once(child, 'close')
  running.delete(child)
  return code === 0
}

/** Starts Node as the leader of its own process group, so that its children can be ended together with it. */
function startNode(
  copy: TreeCopy,
  args: readonly string[],
  environment: TestRun['environment'],
): ChildProcess {
  // The runner's own variable would change the form of the results inside a test.
  const { NODE_TEST_CONTEXT: _, PARLEY_LONG: _long, PARLEY_TEST_TIMES: _times, ...inherited } = process.env
  const child = spawn(process.execPath, args, {
    cwd: copy.root,
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: {
      ...inherited,
      ...environment,
      TMPDIR: copy.temporary,
      NODE_COMPILE_CACHE: join(copy.root, 'node_modules/.cache/compiled'),
    },
  })
  running.add(child)
  return child
}

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // The group has already ended.
  }
}
