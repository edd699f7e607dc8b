/** Starts the sides of a comparison on Postgres, each with its own Postgres. */
import { jobBody } from '../load/bodies.ts'
import { withKeys } from '../load/idempotency-keys.ts'
import { startScript } from './child.ts'
import { assertThat } from './invariants.ts'
import { Parley } from './parley.ts'
import { Postgres } from './postgres.ts'
import { assertEachSettledOnceOnPostgres } from './postgres-invariants.ts'
import type { Side } from './sides.ts'

export type PostgresSideName = 'parley' | 'pgboss'

export interface PostgresSide extends Side {
  readonly postgres: Postgres
}

export interface PostgresSideOptions {
  readonly modelPort: number
  readonly bytes: number
  /** If true, requests have an Idempotency-Key, like those of the published client. */
  readonly keyed?: boolean
  /** The default is this clone's `main.ts`. */
  readonly main?: string
}

export async function startPostgresSide(
  name: PostgresSideName,
  options: PostgresSideOptions,
): Promise<PostgresSide> {
  const side = await (name === 'parley' ? startParley(options) : startPgboss(options))
  return options.keyed === true ? { ...side, target: withKeys(side.target) } : side
}

async function startParley({ modelPort, bytes, main }: PostgresSideOptions): Promise<PostgresSide> {
  const postgres = await Postgres.start()
  const clone = main !== undefined && { main }
  const parley = await Parley.start({ modelPort, database: postgres.url(), ...clone })
  return {
    target: parley.single(jobBody(bytes)),
    processes: [parley.child, postgres],
    pid: parley.child.pid,
    postgres,
    finish: async ({ answers, jobIds }) => {
      await parley.child.stop()
      assertThat(jobIds.length === answers, `${answers} answers held ${jobIds.length} job ids`)
      await assertEachSettledOnceOnPostgres(postgres, jobIds, answers)
      parley.dataFolder.remove()
      await postgres.stop()
    },
  }
}

async function startPgboss({ modelPort, bytes }: PostgresSideOptions): Promise<PostgresSide> {
  const postgres = await Postgres.start()
  const script = new URL('../peers/pgboss-shell.ts', import.meta.url)
  const settings = { modelPort, url: postgres.url() }
  const { child, ready } = await startScript<{ port: number }>(script, { name: 'pg-boss shell', settings })
  return {
    target: {
      port: ready.port,
      host: '127.0.0.1',
      path: '/messages',
      headers: { 'content-type': 'application/json' },
      body: jobBody(bytes),
      expect: { status: 200, text: '"status":"completed"', correlationId: true },
    },
    processes: [child, postgres],
    pid: child.pid,
    postgres,
    finish: async ({ answers }) => {
      await child.stop()
      const ended = await postgres.number(
        `select count(*) from pgboss.job where state = 'completed' and output is not null`,
      )
      assertThat(ended === answers, `${answers} answers were given, and ${ended} jobs are completed`)
      await postgres.stop()
    },
  }
}
