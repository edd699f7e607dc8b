/**
 * Starts one Postgres and one cache of compiled modules for a whole test run. Environment variables pass their locations to the
 * processes.
 *
 *     node --test --test-global-setup=test/postgres/global-setup.ts …
 *
 * If TEST_DATABASE_URL is set, the tests use that database instead.
 */

import { compileCache } from '../support/compile-cache.ts'
import { TIMES } from '../support/cpu-times.ts'
import { LONG } from '../support/long-form.ts'
import { type Cluster, startCluster } from './cluster.ts'
import { CLUSTER } from './database.ts'
import { removeHome } from './home.ts'
import { INSTALLATION, installation } from './installation.ts'

let cluster: Cluster | undefined

export async function globalSetup(): Promise<void> {
  process.env.NODE_COMPILE_CACHE = compileCache()
  if (process.env.TEST_DATABASE_URL) return
  // Autovacuum of emptied tables would delay statements that alter them. The long forms fill their tables, so they need it.
  cluster = await startCluster({ settings: LONG ? {} : { autovacuum: 'off' } })
  if (!TIMES) process.env[CLUSTER] = cluster.url()
  process.env[INSTALLATION] = (await installation()).folder
}

export async function globalTeardown(): Promise<void> {
  await cluster?.stop()
  await removeHome()
}
