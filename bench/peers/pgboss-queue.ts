/** Keeps a long pg-boss queue. Its jobs are fetched, completed and replaced as in Parley's side of the benchmark. */
import type { Postgres } from '../harness/postgres.ts'
import { type Boss, startBoss } from './pgboss.ts'

const QUEUE = 'messages'

export class PgbossQueue {
  readonly #boss: Boss
  readonly #data: object

  private constructor(boss: Boss, data: object) {
    this.#boss = boss
    this.#data = data
  }

  /** pg-boss inserts one job into an empty database. SQL then copies that row, with times a millisecond apart. */
  static async filled(
    postgres: Postgres,
    database: string,
    jobs: number,
    content: string,
  ): Promise<PgbossQueue> {
    await postgres.createDatabase(database)
    const boss = await startBoss(postgres.url(database))
    await boss.createQueue(QUEUE, { partition: true })
    const data = { body: content }
    await boss.insert(QUEUE, [{ data }])
    const columns = await postgres.query<{ name: string }>(COLUMNS, database)
    const names = columns.map(({ name }) => name).join(', ')
    await postgres.query(
      `insert into pgboss.job (${names}, id, created_on)
       select ${names}, gen_random_uuid(), created_on + i * interval '1 ms'
       from pgboss.job, generate_series(1, ${jobs - 1}) as i`,
      database,
    )
    await postgres.settle(database)
    return new PgbossQueue(boss, data)
  }

  async claims(times: number, jobs: number): Promise<number[]> {
    const took: number[] = []
    for (let time = 0; time < times; time++) {
      const startedMs = performance.now()
      const fetched = await this.#boss.fetch(QUEUE, { batchSize: jobs })
      took.push(performance.now() - startedMs)
      if (fetched.length !== jobs) throw new Error(`a fetch of ${jobs} jobs gave ${fetched.length}`)
      const ids = fetched.map(({ id }) => id)
      await this.#boss.complete(QUEUE, ids, { content: 'An answer.' })
      await this.#boss.insert(
        QUEUE,
        ids.map(() => ({ data: this.#data })),
      )
    }
    return took
  }

  async close(): Promise<void> {
    await this.#boss.stop({ graceful: false })
  }
}

const COLUMNS = `
  select column_name as name from information_schema.columns
  where table_schema = 'pgboss' and table_name = 'job' and column_name not in ('id', 'created_on') and is_generated = 'NEVER'`
