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
/** These files mostly wait, usually for leases to expire, or take longest among those with their own process. */
const FIRST =
  /^test\/(nodes|upgrade)\/|^test\/process\/(admin-actions|batch-resume|kills|large-jobs|pipelining|server-package|usage-kills)\.test\.ts$/
const BROWSER = /^test\/browser\//
/** Matches code that depends on the whole process's memory, flags or environment. */
const OWN_PROCESS = /\b(setFlagsFromString|memoryUsage|expose[-_]gc|residentMiB|process\.env\.?\S* = )/
/** With this many groups, no process runs for minutes, or alone at the end. */
const BROWSER_GROUPS = 4
const OTHER_GROUPS = 10

/**
 * Returns the groups in the order in which to start them. Files that mostly wait or take long come first, so that others run in
 * the meantime; other single files come last, so that no process runs alone at the end.
 * @param files paths relative to the clone
 */
export function groupsOf(files: readonly string[]): readonly (readonly string[])[] {
  const alone = files.filter(isAlone)
  const together = files.filter((file) => !alone.includes(file))
  const browser = together.filter((file) => BROWSER.test(file))
  const others = together.filter((file) => !BROWSER.test(file))
  return [
    ...alone.filter((file) => FIRST.test(file)).map((file) => [file]),
    ...dealt(others, OTHER_GROUPS),
    ...dealt(browser, BROWSER_GROUPS),
    ...alone.filter((file) => !FIRST.test(file)).map((file) => [file]),
  ]
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
