/** How far a run is, on standard error: a bar on a terminal, a line now and then elsewhere. */
import { SingleBar } from 'cli-progress'
import { printError } from '../output.ts'

/** How often there is a line where there is no terminal. */
const LINE_EVERY_MS = 10_000
const BAR_PER_SECOND = 5
const FORMAT = '{bar} {percentage}%  {value} of {total}{failed}  {rate}  {left}'
const FORMAT_NARROW = '{percentage}%  {value} of {total}{failed}  {rate}  {left}'
/** Columns, below which there is no room for the bar. */
const WIDE = 90

export interface Standing {
  readonly ended: number
  /** Of these, those that are not completed. */
  readonly failed: number
}

export interface Report {
  show(standing: Standing): void
  /** Leaves the line empty for what is said next. */
  end(): void
}

export function startReport(total: number, start: Standing): Report {
  return process.stderr.isTTY ? bar(total, start) : lines(total, start)
}

function bar(total: number, start: Standing): Report {
  const pace = new Pace(total, start.ended)
  const wide = (process.stderr.columns ?? 0) >= WIDE
  const shown = new SingleBar({
    format: wide ? FORMAT : FORMAT_NARROW,
    stream: process.stderr,
    fps: BAR_PER_SECOND,
    barsize: 24,
    clearOnComplete: true,
    // The cursor of a command that is killed would stay hidden.
    hideCursor: false,
    gracefulExit: false,
  })
  const payload = (standing: Standing) => ({ ...pace.at(standing.ended), failed: failedText(standing) })
  shown.start(total, start.ended, payload(start))
  return {
    show: (standing) => shown.update(standing.ended, payload(standing)),
    end: () => shown.stop(),
  }
}

function lines(total: number, start: Standing): Report {
  const pace = new Pace(total, start.ended)
  let saidMs = performance.now()
  return {
    show(standing) {
      const nowMs = performance.now()
      if (nowMs - saidMs < LINE_EVERY_MS || standing.ended === total) return
      saidMs = nowMs
      const { rate, left } = pace.at(standing.ended)
      printError(`${standing.ended} of ${total} lines have ended${failedText(standing)}, ${rate}, ${left}`)
    },
    end() {},
  }
}

function failedText({ failed }: Standing): string {
  return failed === 0 ? '' : ` (${failed} not completed)`
}

/** Rate and time left, by what this process has seen. */
class Pace {
  readonly #total: number
  readonly #from: number
  readonly #startedMs = performance.now()

  constructor(total: number, from: number) {
    this.#total = total
    this.#from = from
  }

  at(ended: number): { readonly rate: string; readonly left: string } {
    const seconds = (performance.now() - this.#startedMs) / 1000
    const rate = (ended - this.#from) / Math.max(seconds, 0.001)
    if (ended === this.#from) return { rate: 'starting', left: '' }
    return {
      rate: `${rate >= 10 ? Math.round(rate) : rate.toFixed(1)} a second`,
      left: `${duration((this.#total - ended) / rate)} left`,
    }
  }
}

/** In the two largest units: `45 s`, `3 min 5 s`, `2 h 10 min`. */
function duration(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
