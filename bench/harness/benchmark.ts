/** What a benchmark is, and the options that it gets. */
export interface BenchOptions {
  readonly rounds: number
  /** Measured time of a round; the warm-up before it takes half of that. */
  readonly seconds: number
  /** The length of a backlog that is drained. */
  readonly jobs: number
  /** The length of a long queue. */
  readonly waiting: number
  /** Callbacks that are owed. */
  readonly callbacks: number
  /** Attempts in progress at once, on every side. */
  readonly concurrency: number
  /** Also what takes long and much disk, such as ten million stored jobs. */
  readonly large: boolean
  /** The folder of another clone to compare with, its packages installed. */
  readonly against: string | null
}

export interface Benchmark {
  readonly name: string
  /** One line for the list of benchmarks. */
  readonly about: string
  run(options: BenchOptions): Promise<void>
}
