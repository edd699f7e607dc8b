/**
 * Which test files share a process. To start one and to load the service costs more than what most files test, and what one
 * file has made the compiler optimize is fast for the next one.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CLONE, reaches } from './test-files.ts'

/** Files with processes of their own to start and to kill run long, and their clean-up is for the end of this one. */
const PROCESSES =
  /^test\/(process|nodes|long|upgrade|postgres|support)\/.*\.test\.ts$|^test\/process\/server-process\.ts$/
/** For leases to end, mostly. */
const WAITING = /^test\/nodes\//
const BROWSER = /^test\/browser\//
/** The whole process's memory, flags and environment. */
const OWN_PROCESS = /\b(setFlagsFromString|memoryUsage|expose[-_]gc|residentMiB|process\.env\.?\S* = )/
/** In so many processes, that none runs for minutes, nor one alone at the end. */
const BROWSER_GROUPS = 4
const OTHER_GROUPS = 10

/**
 * In the order to start them. Those that wait most of the time come first, so that others run meanwhile; single files come
 * last, so that no process is left to run alone at the end.
 * @param files by their paths from the clone
 */
export function groupsOf(files: readonly string[]): readonly (readonly string[])[] {
  const alone = files.filter(isAlone)
  const together = files.filter((file) => !alone.includes(file))
  const browser = together.filter((file) => BROWSER.test(file))
  const others = together.filter((file) => !BROWSER.test(file))
  return [
    ...alone.filter((file) => WAITING.test(file)).map((file) => [file]),
    ...dealt(others, OTHER_GROUPS),
    ...dealt(browser, BROWSER_GROUPS),
    ...alone.filter((file) => !WAITING.test(file)).map((file) => [file]),
  ]
}

function isAlone(file: string): boolean {
  if (OWN_PROCESS.test(readFileSync(join(CLONE, file), 'utf8'))) return true
  return reaches(file, (path) => PROCESSES.test(path))
}

/** Neighbours test similar things and take similar times, so they go to different groups. */
function dealt(files: readonly string[], count: number): readonly (readonly string[])[] {
  const groups = Array.from({ length: count }, (_, group) => files.filter((_, at) => at % count === group))
  return groups.filter(({ length }) => length > 0)
}
