/**
 * Compares which tests two runs executed, by name and store, and lists those that are gone or new. So it shows whether
 * restructuring the tests has lost any. The location of a test does not count, so files may be moved, split and merged.
 *
 *     node --test --test-reporter=junit --test-reporter-destination=before.xml …
 *     npm run test:compare before.xml after.xml
 *
 * The command exits with 1 if a test is gone. A skipped test does not count as executed.
 */
import { readFileSync } from 'node:fs'

/** Counts how often each test was executed. Its name includes the names of its suites. */
export type Executed = ReadonlyMap<string, number>

export interface Difference {
  /** A test that ran fewer times is listed once for each missing run. */
  readonly gone: readonly string[]
  readonly added: readonly string[]
}

/**
 * These suites are not part of the names. A test outside the suite of a store runs on SQLite or without a store, so moving a
 * test into or out of the suite of SQLite does not change its name. run-files.ts creates the suites of files.
 */
const LEFT_OUT = /^on SQLite$|\.test\.[mt]s$/
const SEPARATOR = ' > '

const COMMENT = /<!--.*?-->/gs
const TAG =
  /<(?<end>\/?)(?<kind>testsuite|testcase|skipped)(?<attributes>(?:\s+\w+="[^"]*")*)\s*(?<empty>\/?)>/g
const NAME = /\sname="([^"]*)"/
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

export function executedIn(report: string): Executed {
  const executed = new Map<string, number>()
  const suites: string[] = []
  let test: string | undefined
  const endTest = () => {
    if (test !== undefined) executed.set(test, (executed.get(test) ?? 0) + 1)
    test = undefined
  }
  for (const { groups = {} } of report.replace(COMMENT, '').matchAll(TAG)) {
    const { kind, end, attributes = '', empty } = groups
    if (kind === 'skipped') {
      test = undefined
    } else if (kind === 'testcase') {
      if (!end) test = [...suites, nameIn(attributes)].filter((name) => !LEFT_OUT.test(name)).join(SEPARATOR)
      if (end || empty) endTest()
    } else if (end) {
      suites.pop()
    } else if (!empty) {
      suites.push(nameIn(attributes))
    }
  }
  return executed
}

export function compare(before: Executed, after: Executed): Difference {
  return { gone: missing(before, after), added: missing(after, before) }
}

function missing(from: Executed, to: Executed): string[] {
  return [...from]
    .flatMap(([name, count]) => Array(Math.max(0, count - (to.get(name) ?? 0))).fill(name))
    .sort()
}

function nameIn(attributes: string): string {
  const name = NAME.exec(attributes)?.[1] ?? ''
  return name.replaceAll(/&(\w+);/g, (entity, word: string) => ENTITIES[word] ?? entity)
}

function total(executed: Executed): number {
  return [...executed.values()].reduce((sum, count) => sum + count, 0)
}

function main(paths: readonly string[]): number {
  const [before, after, ...others] = paths
  if (before === undefined || after === undefined || others.length > 0) {
    process.stderr.write('Usage: npm run test:compare BEFORE.xml AFTER.xml\n')
    return 2
  }
  const [old, now] = [before, after].map((path) => executedIn(readFileSync(path, 'utf8'))) as [
    Executed,
    Executed,
  ]
  const { gone, added } = compare(old, now)
  const lines = [
    ...gone.map((name) => `- ${name}`),
    ...added.map((name) => `+ ${name}`),
    `${total(old)} tests before, ${total(now)} after: ${gone.length} gone, ${added.length} new`,
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
  return gone.length > 0 ? 1 : 0
}

if (import.meta.main) process.exitCode = main(process.argv.slice(2))
