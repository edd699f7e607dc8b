/** Opens the configured database for one command, and closes it after it. */
import { randomBytes } from 'node:crypto'
import { Audit, type Intended } from '../admin/audit.ts'
import { type Clock, systemClock } from '../clock.ts'
import { loadDatabaseUrl } from '../config/load.ts'
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

/** Unlike the server's, its timers keep the process alive: nothing else does while a command waits. */
const clock: Clock = {
  ...systemClock,
  after(ms, act) {
    const timer = setTimeout(act, ms)
    return () => clearTimeout(timer)
  },
}

/** Does something on record: it is in the audit log before it is done. */
export async function onRecord<T>(
  configFile: string | undefined,
  intend: (store: OperatorStore, clock: Clock) => Intended<T> | Promise<Intended<T>>,
): Promise<T> {
  const who = operatorName(process.env)
  const makeId = jobIdMaker(clock, (bytes) => randomBytes(bytes).toString('hex'))
  return withOperatorStore(configFile, async (store) =>
    new Audit(store, clock, makeId).act(who, await intend(store, clock)),
  )
}
