/**
 * `npm run counts` counts what each operation costs on both stores, and prints the costs with their changes. It fails if a
 * count has risen.
 *
 *     npm run counts
 *     npm run counts -- --write                      # to expected.json
 *     npm run counts -- --list 'a single create'     # the functions that it calls on SQLite
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Lifetime } from '../parley.ts'
import { emptyTables } from '../postgres/emptied-schemas.ts'
import { type Counted, Counting, type Counts, NOW_MS } from './counting.ts'
import {
  changesOf,
  readExpected,
  WHAT_TO_DO_ABOUT_FALLS,
  WHAT_TO_DO_ABOUT_RISES,
  withoutNoise,
  writeExpected,
} from './expected.ts'

const { values } = parseArgs({ options: { write: { type: 'boolean' }, list: { type: 'string' } } })

async function count(database: (t: Lifetime, folder: string) => Promise<string>) {
  const ends: (() => unknown)[] = []
  const t: Lifetime = { after: (end) => void ends.push(end) }
  try {
    return await (await Counting.start(t, (folder) => database(t, folder))).all()
  } finally {
    for (const end of ends) await end()
  }
}

function withoutNames(counted: Readonly<Record<string, Counted>>): Readonly<Record<string, Counts>> {
  return Object.fromEntries(
    Object.entries(counted).map(([name, { names: _names, samples: _samples, ...counts }]) => [name, counts]),
  )
}

function textOf({ kilobytes, ...counts }: Counts): string {
  const parts = Object.entries(counts).map(([name, count]) => `${count} ${name}`)
  return [...parts, `${kilobytes} KB allocated`].join(', ')
}

const sqlite = await count(async (_t, folder) => `sqlite:${join(folder, 'parley.db')}`)
if (values.list !== undefined) {
  process.stdout.write(`${(sqlite[values.list]?.names ?? []).join('\n')}\n`)
} else {
  const postgres = await count((t) => emptyTables(t, NOW_MS))
  const before = await readExpected()
  const all = { rises: 0, falls: 0 }
  for (const [store, costs] of Object.entries({ SQLite: sqlite, Postgres: postgres })) {
    process.stdout.write(`${store}\n`)
    for (const [name, counts] of Object.entries(withoutNames(costs)))
      process.stdout.write(`  ${name}: ${textOf(counts)}\n`)
    const { rises, falls } = changesOf(before[store], costs)
    for (const rise of rises) process.stdout.write(`  ! ${rise}\n`)
    for (const fall of falls) process.stdout.write(`  - ${fall}\n`)
    all.rises += rises.length
    all.falls += falls.length
  }
  if (values.write) {
    await writeExpected({
      SQLite: withoutNoise(before.SQLite, withoutNames(sqlite)),
      Postgres: withoutNoise(before.Postgres, withoutNames(postgres)),
    })
  } else {
    if (all.falls > 0) process.stdout.write(`\n${WHAT_TO_DO_ABOUT_FALLS}\n`)
    if (all.rises > 0) {
      process.stdout.write(`\n${WHAT_TO_DO_ABOUT_RISES}\n`)
      process.exitCode = 1
    }
  }
}
