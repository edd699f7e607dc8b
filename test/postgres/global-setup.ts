/**
 * Starts one Postgres for a whole run of the tests, and one cache of compiled modules. The environment names them to the
 * processes.
 *
 *     node --test --test-global-setup=test/postgres/global-setup.ts …
 *
 * With TEST_DATABASE_URL set, the tests use that database instead.
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
  // A vacuum of emptied tables would delay statements that alter them. The long forms fill tables, and need it.
  cluster = await startCluster({ settings: LONG ? {} : { autovacuum: 'off' } })
  if (!TIMES) process.env[CLUSTER] = cluster.url()
  process.env[INSTALLATION] = (await installation()).folder
}

export async function globalTeardown(): Promise<void> {
  await cluster?.stop()
  await removeHome()
}
