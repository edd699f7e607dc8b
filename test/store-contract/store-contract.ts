/**
 * Declares the suites that stores must pass. A store's own test only calls these functions, with a function that creates an
 * empty database, on which a store can be opened repeatedly.
 */
import { describe, test } from 'node:test'
import { acceptTests } from './accepting.ts'
import { accountTests, auditTests } from './accounts.ts'
import { batchTests } from './batches.ts'
import { callbackSearchTests, callbackTests } from './callbacks.ts'
import { cancelTests, ownJobTests } from './cancelling.ts'
import { claimTests } from './claiming.ts'
import { crashTests, pauseTests } from './crashing.ts'
import { deleteTests, expireTests } from './deleting.ts'
import { fileTests } from './files.ts'
import { type MakePlace, type On, restartTime } from './fixtures.ts'
import { heldRequestTests } from './held-requests.ts'
import { durabilityTests, holdTests, returnTests } from './holding.ts'
import { jobSearchTests } from './job-search.ts'
import { overdueTests } from './overdue.ts'
import { queueModel } from './queue-model.ts'
import { quotaModel } from './quota-model.ts'
import { quotaTests } from './quotas.ts'
import { readTests, textTests } from './reading.ts'
import { rerunTests } from './reruns.ts'
import { routeTests } from './routes.ts'
import { settleTests } from './settling.ts'
import { shareTests } from './sharing.ts'
import { addAccounts } from './steps.ts'
import { budgetTests, costCapTests, usageTests } from './usage.ts'

type Suites = Readonly<Record<string, (on: On) => void>>

/** These suites test what nodes use. The reference store of the simulation passes them. */
const OF_NODES: Suites = {
  accept: acceptTests,
  claim: claimTests,
  settle: settleTests,
  'release and rescue': returnTests,
  routes: routeTests,
  'overdue jobs': overdueTests,
  crashes: crashTests,
  hold: holdTests,
  'read and find response': readTests,
  texts: textTests,
  expire: expireTests,
  callbacks: callbackTests,
  'search jobs': jobSearchTests,
  usage: usageTests,
  'caps in money': costCapTests,
  quotas: quotaTests,
  cancel: cancelTests,
  delete: deleteTests,
  'own jobs': ownJobTests,
  batches: batchTests,
  durability: durabilityTests,
}
const OF_SERVERS: Suites = {
  'find and replay callbacks': callbackSearchTests,
  'jobs that wait for a budget': budgetTests,
  reruns: rerunTests,
  'held requests': heldRequestTests,
  files: fileTests,
  audit: auditTests,
}

export function storeContract(name: string, makePlace: MakePlace): void {
  nodeContract(name, makePlace)
  declare(name, makePlace, OF_SERVERS)
  declare(name, makePlace, { accounts: accountTests }, [])
  quotaModel(name, makePlace)
}

export function nodeContract(name: string, makePlace: MakePlace): void {
  declare(name, makePlace, OF_NODES)
  queueModel(name, makePlace)
}

export function sharedStoreContract(name: string, makePlace: MakePlace): void {
  declare(name, makePlace, { share: shareTests, 'paused nodes': pauseTests })
}

function declare(name: string, makePlace: MakePlace, suites: Suites, accounts = ['acme', 'other']): void {
  const on: On = (title, work) => {
    void test(title, async (t) => {
      restartTime()
      const place = await makePlace(t)
      const store = await place.open()
      t.after(() => store.close())
      await addAccounts(store, ...accounts)
      await work(store, t, place)
    })
  }
  for (const [suite, declareTests] of Object.entries(suites))
    describe(`${name}: ${suite}`, () => declareTests(on))
}
