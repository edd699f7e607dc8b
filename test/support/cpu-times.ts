/**
 * Measures what each test file costs: its duration, and the CPU time of its own process, of Postgres, of the browser, and of
 * other processes that it started. Appends a line of JSON for each test file to the file PARLEY_TEST_TIMES:
 *
 *     PARLEY_TEST_TIMES=times.jsonl npm run test:unit
 *
 * Each process of the run then starts its own Postgres, so that it is known which files cause its work. Only works on Linux.
 */
import { appendFileSync, readdirSync, readFileSync } from 'node:fs'

export const TIMES = process.env.PARLEY_TEST_TIMES

type Part = 'own' | 'postgres' | 'browser' | 'processes'
type Spent = Record<Part, number>

interface Running {
  readonly pid: number
  readonly parent: number
  readonly name: string
  readonly own: number
  /** Child processes that have ended used this CPU time. */
  readonly ended: number
}

const TICKS = 100

/** This must be called before a file runs, and the returned function afterwards. */
export function startTimes(): (file: string) => void {
  if (!TIMES) return () => {}
  const startMs = performance.now()
  const before = spent()
  return (file) => {
    const after = spent()
    const wall = (performance.now() - startMs) / 1000
    const parts = Object.fromEntries(
      (Object.keys(after) as Part[]).map((part) => [part, after[part] - before[part]]),
    )
    appendFileSync(TIMES, `${JSON.stringify({ file, wall, ...parts })}\n`)
  }
}

function spent(): Spent {
  const all = readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? (running(name) ?? []) : []))
  const total: Spent = {
    own: process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6,
    postgres: 0,
    browser: 0,
    processes: 0,
  }
  const self = all.find(({ pid }) => pid === process.pid)
  total.processes += self?.ended ?? 0
  const visit = (parent: number) => {
    for (const one of all.filter((child) => child.parent === parent)) {
      const part = one.name.startsWith('postgres')
        ? 'postgres'
        : /chrom|headless/.test(one.name)
          ? 'browser'
          : 'processes'
      total[part] += one.own + one.ended
      visit(one.pid)
    }
  }
  visit(process.pid)
  return total
}

function running(pid: string): Running | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const name = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'))
    const rest = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = rest.slice(11, 15)
    return {
      pid: Number(pid),
      parent: rest[1] ?? 0,
      name,
      own: (user + system) / TICKS,
      ended: (endedUser + endedSystem) / TICKS,
    }
  } catch {
    return undefined
  }
}
