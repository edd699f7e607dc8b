/** What a benchmark is, and the options that it takes. */
export interface BenchOptions {
  readonly rounds: number
  /** Measured seconds per round; the warm-up before it takes half as long. */
  readonly seconds: number
  /** The length of a backlog that is drained. */
  readonly jobs: number
  /** The length of a long queue; as the benchmark has it when null. */
  readonly waiting: number | null
  /** Callbacks that are owed. */
  readonly callbacks: number
  /** Attempts in progress at once, on every side. */
  readonly concurrency: number
  /** What takes half an hour and much disk, such as ten million queued jobs. */
  readonly full: boolean
  /** The folder of another clone to compare with, which has its packages installed. */
  readonly against: string | null
  /** The cells of `real` to measure. */
  readonly cells: CellOptions
}

export interface CellOptions {
  readonly stores: readonly string[]
  readonly delaysMs: readonly number[]
  readonly callers: readonly number[]
  /** As they are called in its table; all that can be measured if null. */
  readonly sides: readonly string[] | null
}

export interface Benchmark {
  readonly name: string
  /** A one-line summary for the list of benchmarks. */
  readonly about: string
  /** When not asked for otherwise; 5 when absent. */
  readonly rounds?: number
  run(options: BenchOptions): Promise<void>
}
