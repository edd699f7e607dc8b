/**
 * Decides which test files run in the same process. Starting a process and loading the service costs more than what most files
 * test, and later files benefit from code that is already optimized.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CLONE, reaches } from './test-files.ts'

/** Files that start and kill processes take long, and clean up when their own process ends, so each runs alone. */
const PROCESSES =
  /^test\/(process|nodes|long|upgrade|postgres|support)\/.*\.test\.ts$|^test\/process\/server-process\.ts$/
/** These files mostly wait, usually for leases to expire, or take the longest of the files with their own process. */
const FIRST = new RegExp(
  [
    /^test\/(nodes|upgrade)\//,
    /^test\/(examples|docs\/callback-examples|counts\/counts)\.test\.ts$/,
    /^test\/process\/(admin-actions|backup|batch-kills|batch-resume|cost-kills)\.test\.ts$/,
    /^test\/process\/(kills|large-jobs|pipelining|server-package|suspects)\.test\.ts$/,
  ]
    .map(({ source }) => source)
    .join('|'),
)
const BROWSER = /^test\/browser\//
/** Matches code that depends on the memory, the flags or the environment of the whole process. */
const OWN_PROCESS = /\b(setFlagsFromString|memoryUsage|expose[-_]gc|residentMiB|process\.env\.?\S* = )/
/** With this many groups, no group takes minutes or runs alone at the end. */
const BROWSER_GROUPS = 4
const OTHER_GROUPS = 10

/**
 * Returns the groups in the order in which to start them. Files that mostly wait or take long come first, alternating with
 * groups, which keep a core busy: several waiting files at once would leave the cores idle. Other single files come last,
 * because they are short, so that no long group runs alone at the end.
 * @param files paths relative to the clone
 */
export function groupsOf(files: readonly string[]): readonly (readonly string[])[] {
  const alone = files.filter(isAlone)
  const together = files.filter((file) => !alone.includes(file))
  const browser = together.filter((file) => BROWSER.test(file))
  const others = together.filter((file) => !BROWSER.test(file))
  const groups = [...dealt(others, OTHER_GROUPS), ...dealt(browser, BROWSER_GROUPS)]
  const first = alone.filter((file) => FIRST.test(file)).map((file) => [file])
  const inTurn = Array.from({ length: Math.max(first.length, groups.length) }, (_, at) => [
    ...first.slice(at, at + 1),
    ...groups.slice(at, at + 1),
  ])
  return [...inTurn.flat(), ...alone.filter((file) => !FIRST.test(file)).map((file) => [file])]
}

function isAlone(file: string): boolean {
  if (OWN_PROCESS.test(readFileSync(join(CLONE, file), 'utf8'))) return true
  return reaches(file, (path) => PROCESSES.test(path))
}

/** Neighbouring files test similar things and take similar times, so groups get the files in turn. */
function dealt(files: readonly string[], count: number): readonly (readonly string[])[] {
  const groups = Array.from({ length: count }, (_, group) => files.filter((_, at) => at % count === group))
  return groups.filter(({ length }) => length > 0)
}
