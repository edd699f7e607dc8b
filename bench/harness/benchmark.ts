/** Defines benchmarks, and the options that they take. */
export interface BenchOptions {
  readonly rounds: number
  /** Measured seconds per round; the warm-up before it takes half as long. */
  readonly seconds: number
  /** The number of jobs in a backlog to drain. */
  readonly jobs: number
  /** The length of a long queue; null for the benchmark's own. */
  readonly waiting: number | null
  /** The number of owed callbacks. */
  readonly callbacks: number
  /** The number of attempts in progress at once, on every side. */
  readonly concurrency: number
  /** Whether to include what takes half an hour and much disk, such as ten million queued jobs. */
  readonly full: boolean
  /** The folder of another clone to compare with, in which its packages are installed. */
  readonly against: string | null
  /** The cells of `real` to measure. */
  readonly cells: CellOptions
}

export interface CellOptions {
  readonly stores: readonly string[]
  readonly delaysMs: readonly number[]
  readonly callers: readonly number[]
  /** The names of sides in the table; null for all that can be measured. */
  readonly sides: readonly string[] | null
}

export interface Benchmark {
  readonly name: string
  /** A one-line summary for the list of benchmarks. */
  readonly about: string
  /** The number of rounds if the options name none; 5 by default. */
  readonly rounds?: number
  run(options: BenchOptions): Promise<void>
}
