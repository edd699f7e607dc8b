/** Defines benchmarks, and the options that they take. */
export interface BenchOptions {
  readonly rounds: number
  readonly seconds: number
  readonly jobs: number
  /** Null stands for the benchmark's own length. */
  readonly waiting: number | null
  readonly callbacks: number
  readonly concurrency: number
  /** Includes what takes half an hour and much disk, such as ten million queued jobs. */
  readonly full: boolean
  readonly against: string | null
  readonly cells: CellOptions
}

export interface CellOptions {
  readonly stores: readonly string[]
  readonly delaysMs: readonly number[]
  readonly callers: readonly number[]
  /** The names are those in the table. Null stands for all sides that can be measured. */
  readonly sides: readonly string[] | null
}

export interface Benchmark {
  readonly name: string
  readonly about: string
  /** The default is 5. */
  readonly rounds?: number
  run(options: BenchOptions): Promise<void>
}
