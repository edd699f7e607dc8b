/**
 * `npm run simulate:mutations` makes each deliberate defect of `mutations.diff` in a copy of the sources, runs seeds there
 * until one fails, and prints how many seeds that took.
 */
import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readOptions } from '../support/command-options.ts'
import { MUTATIONS, type Mutation } from './mutations.ts'

const CLONE = fileURLToPath(new URL('../..', import.meta.url))
/** A history that does not end within this time counts as detected. */
const TIMEOUT_MS = 600_000

const values = readOptions(
  'Makes each deliberate defect in a copy of the sources, and runs seeds until one fails.',
  {
    only: { type: 'string', default: '', help: 'Takes the defects whose description contains this text.' },
    seeds: { type: 'string', default: '2000', help: 'The number of seeds for each defect.' },
    part: {
      type: 'string',
      default: '1/1',
      help: 'Such as 1/4: takes every fourth defect, to run parts in parallel.',
    },
    plans: {
      type: 'boolean',
      default: false,
      help: 'Runs each stored plan with the defect that the plan must detect.',
    },
  },
)
const print = (text: string) => void process.stdout.write(`${text}\n`)

async function copySources(): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'parley-mutations-'))
  for (const part of [
    'src',
    'test/simulation',
    'test/postgres',
    'test/support/command-options.ts',
    'package.json',
  ]) {
    await cp(join(CLONE, part), join(copy, part), { recursive: true })
  }
  await symlink(join(CLONE, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

function run(copy: string, plan: string | undefined, store = 'memory'): Promise<string> {
  const seeds = ['--until-failure', '--no-shrink', '--from', '1', '--seeds', values.seeds, '--store', store]
  const options = values.plans ? ['--plan', `test/simulation/found/${plan}.json`] : seeds
  const args = ['test/simulation/main.ts', ...options]
  const child = spawn(process.execPath, args, {
    cwd: copy,
    timeout: TIMEOUT_MS,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      const [, seed] = /^Seed (\d+) breaks/m.exec(output) ?? []
      const [, rule = ''] = /BROKEN: (.*)/.exec(output) ?? []
      if (seed !== undefined || rule !== '') resolve(`${seed ?? plan} | ${rule}`)
      else if (signal !== null) resolve('1 | a history does not end')
      else resolve(code === 0 ? 'NOT FOUND |' : `1 | the process ends with ${code}`)
    })
  })
}

async function tryMutation(copy: string, { what, file, text, by, store, plans }: Mutation): Promise<void> {
  const path = join(copy, file)
  const source = await readFile(path, 'utf8')
  await writeFile(
    path,
    source.replace(text, () => by),
  )
  for (const plan of values.plans ? plans : [undefined]) {
    print(`| ${what} | ${file.replace('src/', '')} | ${await run(copy, plan, store)} |`)
  }
  await writeFile(path, source)
}

const copy = await copySources()
try {
  print('| mutation | file | found by seed | rule that it breaks |\n|---|---|---|---|')
  const [part = 1, parts = 1] = values.part.split('/').map(Number)
  const isChosen = ({ what }: Mutation, index: number) =>
    what.includes(values.only) && index % parts === part - 1
  for (const mutation of MUTATIONS.filter(isChosen)) await tryMutation(copy, mutation)
} finally {
  await rm(copy, { recursive: true })
}
