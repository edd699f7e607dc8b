/** Shows the progress of `parley batch` on standard error: a bar on a terminal, otherwise a line every ten seconds. */
import { SingleBar } from 'cli-progress'
import { printError } from '../input-output.ts'

const LINE_EVERY_MS = 10_000
const BAR_PER_SECOND = 5
const FORMAT = '{bar} {percentage}%  {value} of {total}{failed}  {rate}  {left}'
const FORMAT_NARROW = '{percentage}%  {value} of {total}{failed}  {rate}  {left}'
/** On a narrower terminal, the bar would leave too little room for the figures. */
const MIN_COLUMNS_FOR_BAR = 90

export interface RunProgress {
  readonly ended: number
  /** Counts the lines without an answer: their jobs failed or expired, or the lines were invalid. */
  readonly failed: number
}

export interface Report {
  show(progress: RunProgress): void
  /** Clears the line, so that other output can follow. */
  end(): void
}

export function startReport(total: number, start: RunProgress): Report {
  return process.stderr.isTTY ? bar(total, start) : lines(total, start)
}

function bar(total: number, start: RunProgress): Report {
  const pace = new Pace(total, start.ended)
  const wide = (process.stderr.columns ?? 0) >= MIN_COLUMNS_FOR_BAR
  const shown = new SingleBar({
    format: wide ? FORMAT : FORMAT_NARROW,
    stream: process.stderr,
    fps: BAR_PER_SECOND,
    barsize: 24,
    clearOnComplete: true,
    // A hidden cursor would stay hidden if the command were killed.
    hideCursor: false,
    gracefulExit: false,
  })
  const payload = (progress: RunProgress) => ({ ...pace.at(progress.ended), failed: failedText(progress) })
  shown.start(total, start.ended, payload(start))
  return {
    show: (progress) => shown.update(progress.ended, payload(progress)),
    end: () => shown.stop(),
  }
}

function lines(total: number, start: RunProgress): Report {
  const pace = new Pace(total, start.ended)
  let printedMs = performance.now()
  return {
    show(progress) {
      const nowMs = performance.now()
      if (nowMs - printedMs < LINE_EVERY_MS || progress.ended === total) return
      printedMs = nowMs
      const { rate, left } = pace.at(progress.ended)
      printError(`${progress.ended} of ${total} lines finished${failedText(progress)}, ${rate}, ${left}`)
    },
    end() {},
  }
}

function failedText({ failed }: RunProgress): string {
  return failed === 0 ? '' : ` (${failed} not completed)`
}

/** The estimate uses only what this process has observed. Earlier results of a resumed run would distort the rate. */
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

/** Formats a duration in its two largest units: `45 s`, `3 min 5 s`, `2 h 10 min`. */
function duration(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
