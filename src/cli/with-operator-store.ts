/** Opens the configured database for one command, and closes it afterwards. */
import { randomBytes } from 'node:crypto'
import type { AdminAction } from '../admin/admin-action.ts'
import { AuditLog } from '../admin/audit-log.ts'
import { type Clock, systemClock } from '../clock.ts'
import { loadDatabaseUrl } from '../config/file.ts'
import { jobIdMaker } from '../job/job-id.ts'
import { openForOperator } from '../store/open.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import { operatorName } from './operator-name.ts'

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
