/** What each operation is expected to cost: expected.json, by store and operation. */
import { readFile, writeFile } from 'node:fs/promises'
import type { Counted, Counts } from './counting.ts'

/** By operation. */
export type Costs = Readonly<Record<string, Counts>>
/** By store. */
export type Expected = Readonly<Record<string, Costs>>

const FILE = new URL('./expected.json', import.meta.url)
/** Allocated bytes vary slightly with what the runtime compiles meanwhile; everything else is exact. */
const TOLERANCE = 0.15
/** While the operation waits, a node's work in real time allocates as well: too much to compare on a slow machine. */
const WAITS = 'a job with a callback'
const EXACT = ['statements', 'commits', 'messages', 'files', 'functions'] as const

export async function readExpected(): Promise<Expected> {
  return JSON.parse(await readFile(FILE, 'utf8')) as Expected
}

export async function writeExpected(expected: Expected): Promise<void> {
  await writeFile(FILE, `${JSON.stringify(expected, null, 2)}\n`)
}

/** Each count that has increased, such as `a read: functions 44 -> 45`. */
export function changesOf(
  before: Costs = {},
  now: Readonly<Record<string, Counted>>,
  comparesBytes = true,
): readonly string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])]
  return names.flatMap((name) => {
    const [old, present] = [before[name], now[name]]
    if (!old || !present) return [`${name}: ${old ? 'not counted any more' : 'not counted before'}`]
    const isSame = present.samples.some((sample) => EXACT.every((count) => sample[count] === old[count]))
    const exact = isSame ? [] : EXACT.filter((count) => old[count] !== present[count])
    const isCompared = comparesBytes && name !== WAITS
    const isClose = !isCompared || Math.abs(present.kilobytes - old.kilobytes) <= old.kilobytes * TOLERANCE
    const changed = isClose ? exact : [...exact, 'kilobytes' as const]
    return changed.map((count) => `${name}: ${count} ${old[count]} -> ${present[count]}`)
  })
}
