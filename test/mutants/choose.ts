/** Draws mutants. From the same sources, the same seed draws the same mutants, and a smaller count draws the first of them. */
import { createHash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { SeededRandom } from '../simulation/random.ts'
import { type Edit, editsOf } from './operators.ts'

export interface Mutant {
  /** The ID changes with the source, so that a report never mistakes a mutant of an earlier source for this one. */
  readonly id: string
  readonly file: string
  readonly line: number
  readonly operator: string
  readonly text: string
  readonly diff: string
}

export interface Choice {
  readonly count: number
  readonly seed: number
  /** The folders are relative to the root. */
  readonly folders: readonly string[]
}

const CONTEXT = 2

/** Each place of the sources has the same probability, regardless of its number of edits. No mutant is drawn twice. */
export function choose(root: string, { count, seed, folders }: Choice): readonly Mutant[] {
  const random = new SeededRandom(seed)
  const places = folders.flatMap((folder) => sourcesIn(root, folder)).flatMap((file) => placesIn(root, file))
  const chosen: Mutant[] = []
  while (chosen.length < count && places.length > 0) {
    const at = random.whole(0, places.length - 1)
    const place = places[at]
    if (!place) break
    chosen.push(mutantOf(place.file, place.text, random.pick(place.edits)))
    places.splice(at, 1)
  }
  return chosen
}

function sourcesIn(root: string, folder: string): readonly string[] {
  return globSync(`${folder}/**/*.ts`, { cwd: root, exclude: ['**/*.test.ts', '**/node_modules/**'] })
    .map((file) => file.replaceAll(sep, '/'))
    .toSorted()
}

interface EditedPlace {
  readonly file: string
  readonly text: string
  readonly edits: readonly Edit[]
}

function placesIn(root: string, file: string): readonly EditedPlace[] {
  const text = readFileSync(join(root, file), 'utf8')
  const byPlace = Map.groupBy(editsOf(text, file.includes('/store/')), ({ start, end }) => `${start} ${end}`)
  return [...byPlace.values()].map((edits) => ({ file, text, edits }))
}

export function mutantOf(file: string, source: string, { operator, start, end, by }: Edit): Mutant {
  const text = source.slice(0, start) + by + source.slice(end)
  const id = createHash('sha256').update(`${file}\n${text}`).digest('hex').slice(0, 10)
  return {
    id,
    file,
    line: lineAt(source, start),
    operator,
    text,
    diff: diffOf(file, source, text, start, end),
  }
}

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

function diffOf(file: string, source: string, text: string, start: number, end: number): string {
  const before = source.split('\n')
  const after = text.split('\n')
  const first = lineAt(source, start) - 1
  const last = lineAt(source, end)
  const lastAfter = last + after.length - before.length
  const from = Math.max(first - CONTEXT, 0)
  const to = Math.min(last + CONTEXT, before.length)
  const marked = (mark: string, lines: readonly string[]) => lines.map((line) => `${mark}${line}\n`).join('')
  return [
    `--- a/${file}\n+++ b/${file}\n`,
    `@@ -${from + 1},${to - from} +${from + 1},${to - from + after.length - before.length} @@\n`,
    marked(' ', before.slice(from, first)),
    marked('-', before.slice(first, last)),
    marked('+', after.slice(first, lastAfter)),
    marked(' ', before.slice(last, to)),
  ].join('')
}
