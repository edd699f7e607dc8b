/**
 * Defines the sides of the benchmark `cost`: Parley on SQLite with and without idempotency keys, and a service composed of
 * BullMQ, Redis, Portkey's gateway and undici.
 */
import { openCallbackDatabase } from '../harness/callback-database.ts'
import { type Child, startScript } from '../harness/child.ts'
import { assertThat } from '../harness/invariants.ts'
import { startRedis } from '../harness/redis.ts'
import { startGateway } from '../harness/sides.ts'

export type CostSideName = 'parley' | 'parley without keys' | 'composed'

export interface CostSide {
  readonly port: number
  readonly headers: Readonly<Record<string, string>>
  readonly processes: readonly Child[]
  readonly writer: Child
  /** Throws unless each of these jobs is stored with its result. Then stops the side. */
  finish(jobIds: readonly string[]): Promise<void>
}

export interface CostSideOptions {
  readonly modelPort: number
  /** Limits the jobs, and separately the callbacks, in progress. */
  readonly concurrency: number
}

export function startCostSide(name: CostSideName, options: CostSideOptions): Promise<CostSide> {
  return name === 'composed' ? startComposed(options) : startParley(options)
}

async function startParley({ modelPort, concurrency }: CostSideOptions): Promise<CostSide> {
  const database = await openCallbackDatabase('sqlite')
  const parley = await database.start({ modelPort, concurrency, jobs: concurrency })
  return {
    port: parley.port,
    headers: parley.headers,
    processes: [parley.child],
    writer: parley.child,
    finish: async (jobIds) => {
      await parley.child.stop()
      await database.checkJobs(jobIds, jobIds.length)
      await database.remove()
    },
  }
}

async function startComposed({ modelPort, concurrency }: CostSideOptions): Promise<CostSide> {
  const redis = await startRedis()
  const gateway = await startGateway()
  const script = new URL('../peers/composed-service.ts', import.meta.url)
  const settings = { modelPort, gatewayPort: gateway.port, redisPort: redis.port, concurrency }
  const { child, ready } = await startScript<{ port: number }>(script, { name: 'composed', settings })
  return {
    port: ready.port,
    headers: { 'content-type': 'application/json' },
    processes: [child, gateway.child, redis.child],
    writer: redis.child,
    finish: async (jobIds) => {
      const { count } = await child.ask<{ count: number }>({ kind: 'completed?' }, 'completed')
      assertThat(count === jobIds.length, `${jobIds.length} jobs were accepted, and ${count} are completed`)
      await child.stop()
      await gateway.child.stop()
      await redis.stop()
    },
  }
}
