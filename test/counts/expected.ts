/** Compares counts with the expected ones in expected.json, by store and operation. */
import { readFile, writeFile } from 'node:fs/promises'
import type { Counted, Counts } from './counting.ts'

export type Costs = Readonly<Record<string, Counts>>
export type Expected = Readonly<Record<string, Costs>>

const FILE = new URL('./expected.json', import.meta.url)
/** Allocation may differ by this share, because it varies with what the runtime compiles. Everything else is exact. */
const TOLERANCE = 0.15
/** The allocation of this operation is not compared, because a node's work during its pauses also allocates. */
const WAITS = 'a job with a callback'
const EXACT = ['statements', 'commits', 'messages', 'files', 'functions'] as const

export async function readExpected(): Promise<Expected> {
  return JSON.parse(await readFile(FILE, 'utf8')) as Expected
}

export async function writeExpected(expected: Expected): Promise<void> {
  await writeFile(FILE, `${JSON.stringify(expected, null, 2)}\n`)
}

/** What differs only by noise stays as it was, so that a change of the file shows what has changed. */
export function withoutNoise(before: Costs = {}, now: Costs): Costs {
  const kept = Object.entries(now).map(([name, counts]) => {
    const old = before[name]?.kilobytes ?? 0
    const isChanged = isRisen(old, counts.kilobytes) || isFallen(old, counts.kilobytes)
    const keeps = old > 0 && (name === WAITS || !isChanged)
    return [name, keeps ? { ...counts, kilobytes: old } : counts] as const
  })
  return Object.fromEntries(kept)
}

const isRisen = (before: number, now: number) => now > before * (1 + TOLERANCE)
const isFallen = (before: number, now: number) => now < before * (1 - TOLERANCE)

/** Each entry names one difference, as in `a read: functions 44 -> 45`. */
export interface Changes {
  /** Includes operations without an expected count. */
  readonly rises: readonly string[]
  /** Includes operations that are no longer counted. */
  readonly falls: readonly string[]
}

export const WHAT_TO_DO_ABOUT_RISES = `An operation has become more expensive. To find the cause, list its functions before and after your change:
  npm run counts -- --list 'a read'
If the change is worth the cost, save the new counts, and give the reason in the commit:
  npm run counts -- --write`
export const WHAT_TO_DO_ABOUT_FALLS =
  'An operation has become cheaper. Save the new counts, so that they stay low: npm run counts -- --write'

export function changesOf(
  before: Costs = {},
  now: Readonly<Record<string, Counted>>,
  comparesBytes = true,
): Changes {
  const rises: string[] = []
  const falls: string[] = []
  for (const name of new Set([...Object.keys(before), ...Object.keys(now)])) {
    const [old, present] = [before[name], now[name]]
    if (!old) rises.push(`${name}: not counted before`)
    else if (!present) falls.push(`${name}: not counted any more`)
    else {
      const text = (count: keyof Counts, value: number) => `${name}: ${count} ${old[count]} -> ${value}`
      const isCompared = comparesBytes && name !== WAITS
      const { kilobytes } = present
      const bytes = isCompared ? [text('kilobytes', kilobytes)] : []
      const { least, risen } = leastRisen(old, present)
      rises.push(...risen.map((count) => text(count, least[count])))
      if (isRisen(old.kilobytes, kilobytes)) rises.push(...bytes)
      const fallen = EXACT.filter((count) => present[count] < old[count] && !risen.includes(count))
      falls.push(...fallen.map((count) => text(count, present[count])))
      if (isFallen(old.kilobytes, kilobytes)) falls.push(...bytes)
    }
  }
  return { rises, falls }
}

type Sample = Counted['samples'][number]

/**
 * Returns the run in which the fewest counts have risen, because a node's work once a second adds to the counts of some runs.
 */
function leastRisen(old: Counts, { samples, ...counted }: Counted) {
  const risenIn = (sample: Sample) => EXACT.filter((count) => sample[count] > old[count])
  const [first = counted, ...others] = samples
  const least = others.reduce<Sample>((best, sample) => {
    return risenIn(sample).length < risenIn(best).length ? sample : best
  }, first)
  return { least, risen: risenIn(least) }
}
