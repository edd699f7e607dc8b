/** Declares types for what the benchmarks use of pg-boss, because Parley does not install its package. */

export interface BossJob {
  readonly id: string
  readonly data: { readonly body: string }
}

export interface Boss {
  on(event: 'error', callback: (error: Error) => void): void
  start(): Promise<unknown>
  stop(options: { readonly graceful: boolean }): Promise<void>
  createQueue(name: string, options?: object): Promise<void>
  insert(name: string, jobs: readonly object[]): Promise<unknown>
  send(name: string, data: object): Promise<string | null>
  fetch(name: string, options: object): Promise<BossJob[]>
  complete(name: string, id: string | readonly string[], output: object): Promise<unknown>
  work(name: string, options: object, work: (jobs: BossJob[]) => Promise<object[]>): Promise<unknown>
}

const NAME = 'pg-boss'
/** The workers have connections in addition to these. More did not raise the throughput. */
const CONNECTIONS = 20

export async function startBoss(url: string): Promise<Boss> {
  const { PgBoss } = (await import(NAME)) as { PgBoss: new (options: object) => Boss }
  const boss = new PgBoss({ connectionString: url, max: CONNECTIONS })
  boss.on('error', (error) => process.stderr.write(`${error.stack}\n`))
  await boss.start()
  return boss
}
