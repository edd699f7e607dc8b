/**
 * Decides which test files share a process. Starting a process and loading the service costs more than most files test, and
 * later files run code that is already optimized.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CLONE, reaches } from './test-files.ts'

/** Files that start and kill processes run long, and clean up at the end of their own process. */
const PROCESSES =
  /^test\/(process|nodes|long|upgrade|postgres|support)\/.*\.test\.ts$|^test\/process\/server-process\.ts$/
/** These wait most of the time, mostly for leases to expire, or take longest of those with their own process. */
const FIRST = new RegExp(
  [
    /^test\/(nodes|upgrade)\//,
    /^test\/(examples|docs\/callback-examples|counts\/counts)\.test\.ts$/,
    /^test\/process\/(admin-actions|backup|batch-command|batch-kills|batch-resume|cost-kills)\.test\.ts$/,
    /^test\/process\/(kills|large-jobs|pipelining|server-package|suspects|usage-kills)\.test\.ts$/,
  ]
    .map(({ source }) => source)
    .join('|'),
)
const BROWSER = /^test\/browser\//
/** Matches code that depends on the whole process's memory, flags or environment. */
const OWN_PROCESS = /\b(setFlagsFromString|memoryUsage|expose[-_]gc|residentMiB|process\.env\.?\S* = )/
/** With this many groups, no process runs for minutes, or alone at the end. */
const BROWSER_GROUPS = 4
const OTHER_GROUPS = 10

/**
 * In the order in which to start them. Files that wait most of the time or take long come first, in turn with groups, which keep a
 * core busy: where several only waited, the cores were idle. Other single files come last, so that no process is left to run
 * alone at the end.
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

/** Deals the files out in turn, because neighboring files test similar things and take similar times. */
function dealt(files: readonly string[], count: number): readonly (readonly string[])[] {
  const groups = Array.from({ length: count }, (_, group) => files.filter((_, at) => at % count === group))
  return groups.filter(({ length }) => length > 0)
}
