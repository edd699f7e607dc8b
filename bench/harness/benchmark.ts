/** Defines benchmarks, and the options that they take. */
export interface BenchOptions {
  readonly rounds: number
  /** Measured seconds per round. The warm-up before them takes half as long. */
  readonly seconds: number
  readonly jobs: number
  /** Null stands for the benchmark's own length. */
  readonly waiting: number | null
  readonly callbacks: number
  /** Limits the delivery attempts in progress, on every side. */
  readonly concurrency: number
  /** Includes what takes half an hour and much disk, such as ten million queued jobs. */
  readonly full: boolean
  /** The folder of another clone of Parley, in which its packages are installed. */
  readonly against: string | null
  /** Selects the cells of the benchmark `real`. */
  readonly cells: CellOptions
}

export interface CellOptions {
  readonly stores: readonly string[]
  readonly delaysMs: readonly number[]
  readonly callers: readonly number[]
  /** The sides' names in the table. Null stands for all that can be measured. */
  readonly sides: readonly string[] | null
}

export interface Benchmark {
  readonly name: string
  /** This line describes the benchmark in the list of benchmarks. */
  readonly about: string
  /** Applies if the options name no number of rounds. The default is 5. */
  readonly rounds?: number
  run(options: BenchOptions): Promise<void>
}
