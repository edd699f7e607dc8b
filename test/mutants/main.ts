/**
 * `npm run mutants` makes random mistakes in copies of the sources, and counts how many the tests find. See
 * docs/internals/simulation.md.
 */
import { INSTALLATION, installation } from '../postgres/installation.ts'
import { readOptions } from '../support/command-options.ts'
import { CLONE } from '../support/test-files.ts'
import { choose } from './choose.ts'
import { describe, type Entry, Report, tableOf } from './report.ts'
import { TestPlan } from './test-plan.ts'
import { TreeCopy } from './tree-copy.ts'
import { tryMutant } from './try-mutant.ts'

const FOLDERS = [
  'src/queue',
  'src/store',
  'src/upstreams',
  'src/callbacks',
  'src/http',
  'client/src',
  'json-schema/src',
]

const values = readOptions(
  'Makes random mistakes in copies of the sources, and counts how many the tests find.',
  {
    count: { type: 'string', default: '300', help: 'The number of mistakes.' },
    seed: { type: 'string', help: 'Selects the mistakes: the same seed makes the same ones.' },
    folder: { type: 'string', multiple: true, help: 'A folder such as queue or client; can be repeated.' },
    jobs: { type: 'string', default: '1', help: 'The number of mistakes that are tested at the same time.' },
    report: {
      type: 'string',
      help: 'The file to which results are added. Mistakes in it are not tested again.',
    },
    'idle-seconds': {
      type: 'string',
      default: '120',
      help: 'A mistake whose tests report nothing for this long counts as found.',
    },
    minutes: { type: 'string', help: 'After this time, no more mistakes are tested.' },
    list: { type: 'boolean', default: false, help: 'Prints the diffs and tests nothing.' },
  },
)

const print = (text: string) => void process.stdout.write(`${text}\n`)

function number(name: 'count' | 'jobs' | 'idle-seconds' | 'minutes' | 'seed', least: number): number {
  const value = Number(values[name])
  if (values[name] === undefined || !(value >= least)) throw new Error(`--${name} must be at least ${least}`)
  return value
}

function foldersOf(names: readonly string[] | undefined): readonly string[] {
  return (names ?? FOLDERS).map((name) => {
    const folder = FOLDERS.find((one) => one === name || one.split('/').includes(name))
    if (!folder) throw new Error(`--folder is ${name}: it must be one of ${FOLDERS.join(', ')}`)
    return folder
  })
}

const count = number('count', 1)
const chosen = choose(CLONE, { count, seed: number('seed', 0), folders: foldersOf(values.folder) })
const report = new Report(values.report)

async function runAll(): Promise<void> {
  const untilMs = values.minutes === undefined ? Infinity : performance.now() + number('minutes', 0) * 60_000
  const plan = new TestPlan(CLONE)
  const shared = {
    plan,
    idleMs: number('idle-seconds', 1) * 1000,
    environment: { [INSTALLATION]: (await installation()).folder },
    known: new Map<string, boolean>(),
    print,
  }
  const waiting = chosen.filter((mutant) => !report.entryOf(mutant))
  const work = async () => {
    const copy = new TreeCopy(CLONE)
    process.once('exit', () => copy.remove())
    for (;;) {
      const mutant = performance.now() < untilMs ? waiting.shift() : undefined
      if (!mutant) return
      const entry = report.add(mutant, await tryMutant(mutant, { ...shared, copy }))
      print(describe(entry))
    }
  }
  await Promise.all(Array.from({ length: number('jobs', 1) }, work))
}

// An exit of this process ends the tests and removes the copies.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

if (values.list) for (const { id, operator, diff } of chosen) print(`${id} ${operator}\n${diff}`)
else {
  await runAll()
  const entries = chosen.map((mutant) => report.entryOf(mutant)).filter((entry): entry is Entry => !!entry)
  for (const entry of entries.filter(({ result }) => result === 'survived'))
    print(`\n${describe(entry)}\n${entry.diff}`)
  print(`\n${tableOf(entries)}`)
}
