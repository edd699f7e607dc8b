/**
 * The one suite that every store passes. A store's own test only calls it with functions that open the store on an empty
 * database and open the same database again.
 */
import { describe, test } from 'node:test'
import { acceptTests } from './accepting.ts'
import { accountTests } from './accounts.ts'
import { auditTests } from './audit.ts'
import { batchTests } from './batches.ts'
import { callbackSearchTests } from './callback-search.ts'
import { callbackTests } from './callbacks.ts'
import { cancelTests } from './cancelling.ts'
import { claimTests } from './claiming.ts'
import { budgetTests } from './cost-caps.ts'
import { crashTests } from './crashing.ts'
import { deleteTests } from './deleting.ts'
import { durabilityTests } from './durability.ts'
import { expireTests } from './expiring.ts'
import { fileTests } from './files.ts'
import { addAccounts, type MakePlace, type On, restartTime } from './fixtures.ts'
import { heldRequestTests } from './held-requests.ts'
import { holdTests } from './holding.ts'
import { jobSearchTests } from './job-search.ts'
import { overdueTests } from './overdue.ts'
import { ownJobTests } from './own-jobs.ts'
import { pauseTests } from './pausing.ts'
import { queueModel } from './queue-model.ts'
import { quotaModel } from './quota-model.ts'
import { quotaTests } from './quotas.ts'
import { readTests } from './reading.ts'
import { rerunTests } from './reruns.ts'
import { returnTests } from './returning.ts'
import { routeTests } from './routes.ts'
import { settleTests } from './settling.ts'
import { shareTests } from './sharing.ts'
import { textTests } from './texts.ts'
import { usageTests } from './usage.ts'

/** The accounts of most tests. */
const ACCOUNTS = ['acme', 'other']

export function storeContract(name: string, makePlace: MakePlace): void {
  const on = onStore(makePlace, ACCOUNTS)
  describe(`${name}: accept`, () => acceptTests(on))
  describe(`${name}: claim`, () => claimTests(on))
  describe(`${name}: settle`, () => settleTests(on))
  describe(`${name}: release and rescue`, () => returnTests(on))
  describe(`${name}: routes`, () => routeTests(on))
  describe(`${name}: overdue jobs`, () => overdueTests(on))
  describe(`${name}: crashes`, () => crashTests(on))
  describe(`${name}: hold`, () => holdTests(on))
  describe(`${name}: read and find response`, () => readTests(on))
  describe(`${name}: texts`, () => textTests(on))
  describe(`${name}: expire`, () => expireTests(on))
  describe(`${name}: callbacks`, () => callbackTests(on))
  describe(`${name}: find and replay callbacks`, () => callbackSearchTests(on))
  describe(`${name}: search jobs`, () => jobSearchTests(on))
  describe(`${name}: accounts`, () => accountTests(onStore(makePlace, [])))
  describe(`${name}: usage`, () => usageTests(on))
  describe(`${name}: jobs that wait for a budget`, () => budgetTests(on))
  describe(`${name}: quotas`, () => quotaTests(on))
  describe(`${name}: cancel`, () => cancelTests(on))
  describe(`${name}: delete`, () => deleteTests(on))
  describe(`${name}: own jobs`, () => ownJobTests(on))
  describe(`${name}: reruns`, () => rerunTests(on))
  describe(`${name}: held requests`, () => heldRequestTests(on))
  describe(`${name}: files`, () => fileTests(on))
  describe(`${name}: batches`, () => batchTests(on))
  describe(`${name}: audit`, () => auditTests(on))
  describe(`${name}: durability`, () => durabilityTests(makePlace))
  queueModel(name, makePlace)
  quotaModel(name, makePlace)
}

/** Additional tests for a store that many nodes share. */
export function sharedStoreContract(name: string, makePlace: MakePlace): void {
  const on = onStore(makePlace, ACCOUNTS)
  describe(`${name}: share`, () => shareTests(on))
  describe(`${name}: paused nodes`, () => pauseTests(on))
}

function onStore(makePlace: MakePlace, accounts: readonly string[]): On {
  return (title, work) => {
    void test(title, async (t) => {
      restartTime()
      const place = await makePlace(t)
      const store = await place.open()
      t.after(() => store.close())
      await addAccounts(store, ...accounts)
      await work(store, t, place)
    })
  }
}
