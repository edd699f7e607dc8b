/**
 * One Postgres for a whole run of the tests, named to their processes by the environment.
 *
 *     node --test --test-global-setup=test/postgres/global-setup.ts …
 *
 * With TEST_DATABASE_URL set, the tests use that database instead.
 */
import { type Cluster, startCluster } from './cluster.ts'
import { CLUSTER } from './database.ts'
import { removeHome } from './home.ts'
import { INSTALLATION, installation } from './installation.ts'

let cluster: Cluster | undefined

export async function globalSetup(): Promise<void> {
  if (process.env.TEST_DATABASE_URL) return
  cluster = await startCluster()
  process.env[CLUSTER] = cluster.url()
  process.env[INSTALLATION] = (await installation()).folder
}

export async function globalTeardown(): Promise<void> {
  await cluster?.stop()
  await removeHome()
}
