/**
 * One Postgres for a whole run of the tests, and one cache of compiled modules, named to their processes by the
 * environment. Each file is a process of its own: without the cache each would strip and compile the same sources.
 *
 *     node --test --test-global-setup=test/postgres/global-setup.ts …
 *
 * With TEST_DATABASE_URL set, the tests use that database instead.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LONG } from '../support/long-form.ts'
import { type Cluster, startCluster } from './cluster.ts'
import { CLUSTER } from './database.ts'
import { removeHome } from './home.ts'
import { INSTALLATION, installation } from './installation.ts'

let cluster: Cluster | undefined
let compiled = ''

export async function globalSetup(): Promise<void> {
  compiled = await mkdtemp(join(tmpdir(), 'parley-compiled-'))
  process.env.NODE_COMPILE_CACHE = compiled
  if (process.env.TEST_DATABASE_URL) return
  // A vacuum of emptied tables would delay statements that alter them. The long forms fill tables, and need it.
  cluster = await startCluster({ settings: LONG ? {} : { autovacuum: 'off' } })
  process.env[CLUSTER] = cluster.url()
  process.env[INSTALLATION] = (await installation()).folder
}

export async function globalTeardown(): Promise<void> {
  await cluster?.stop()
  await removeHome()
  await rm(compiled, { recursive: true, force: true })
}
