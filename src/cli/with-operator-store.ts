/** Opens the configured database for one command, and closes it afterwards. */
import { randomBytes } from 'node:crypto'
import { hostname, userInfo } from 'node:os'
import type { AdminAction } from '../admin/admin-action.ts'
import { AuditLog } from '../admin/audit-log.ts'
import { type Clock, systemClock } from '../clock.ts'
import { loadDatabaseUrl } from '../config/file.ts'
import { jobIdMaker } from '../job/job-id.ts'
import { openForOperator } from '../store/open.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import { CommandError } from './command-error.ts'

export async function withOperatorStore<T>(
  configFile: string | undefined,
  work: (store: OperatorStore) => Promise<T>,
): Promise<T> {
  const store = await openForOperator(loadDatabaseUrl(process.env, configFile))
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

/** Unlike the server's clock, its timers keep the process alive, because nothing else does while a command waits. */
const clock: Clock = {
  ...systemClock,
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    return () => clearTimeout(timer)
  },
}

/** Performs an admin action and records it in the audit log: see `AuditLog`. */
export async function performAction<T>(
  configFile: string | undefined,
  actionOf: (store: OperatorStore, clock: Clock) => AdminAction<T>,
): Promise<T> {
  const who = operatorName(process.env)
  const makeId = jobIdMaker(clock, (bytes) => randomBytes(bytes).toString('hex'))
  return withOperatorStore(configFile, async (store) =>
    new AuditLog(store, clock, makeId).perform(who, actionOf(store, clock)),
  )
}

/** Who runs a command, as the audit log records it. */
const MAX_CHARACTERS = 64
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

/** For example `root@db1 (command line)`. PARLEY_OPERATOR replaces the user name if several people share one user. */
function operatorName({ PARLEY_OPERATOR: given }: NodeJS.ProcessEnv): string {
  const name = given ? given.trim() : userName()
  if ([...name].length > MAX_CHARACTERS || name === '' || CONTROLS.test(name)) {
    throw new CommandError(
      `PARLEY_OPERATOR: must be 1 to ${MAX_CHARACTERS} characters, without control characters.`,
    )
  }
  return `${name}@${hostname()} (command line)`
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // The user has no name, which is common in containers.
    return `user ${process.getuid?.() ?? 'unknown'}`
  }
}
