/** Tests what a copy contains, between all kinds of stores. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshDatabase } from '../../test/postgres/database.ts'
import { stepOf } from '../../test/store-contract/batches.ts'
import { acceptance, jobIds, newJob } from '../../test/store-contract/fixtures.ts'
import { accept, addAccounts, claimAll, settle } from '../../test/store-contract/steps.ts'
import { options } from '../../test/support/populated-database.ts'
import { countStored } from '../../test/support/stored-sums.ts'
import {
  all,
  change,
  connect,
  copyAll,
  emptyColumns,
  expected,
  newFile,
  populated,
  rowsOf,
  TURN,
} from '../../test/support/transfer-databases.ts'
import { DELIVERY_QUEUES, type DueCallback } from './callback-store.ts'
import { openStore, openTransferSource } from './open.ts'
import { KIND_NAMES } from './transfer-contract.ts'
import { BUDGET_ROUTE } from './usage-store.ts'

test('everything that matters goes from SQLite to Postgres and back unchanged', async (t) => {
  const { file, population } = await populated(t)
  const [middle, end] = [await freshDatabase(t), await newFile(t)]
  const there = await copyAll(`sqlite:${file}`, middle, population)
  const back = await copyAll(middle, `sqlite:${end}`, population)
  const [original, copied] = [rowsOf(file, expected(population)), rowsOf(end)]
  for (const kind of KIND_NAMES) assert.deepEqual(copied[kind], original[kind], kind)
  // Each kind must have rows; otherwise the comparison would prove little.
  for (const [name, count] of Object.entries(there)) assert.ok(count > 0, `${name}: ${count}`)
  assert.equal(there.expired, population.expired.length)
  assert.deepEqual(back, { ...there, held: 0, expired: 0 })
})

test('the copied database has a value in every column, so that a lost column is noticed', async (t) => {
  const { file, population } = await populated(t)
  const empty = emptyColumns(file, rowsOf(file, expected(population)))
  assert.deepEqual(empty, [], 'Fill them in some rows of test/support/populated-database.ts')
})

test('SQLite to SQLite', async (t) => {
  const { file, population } = await populated(t)
  const end = await newFile(t)
  await copyAll(`sqlite:${file}`, `sqlite:${end}`, population)
  assert.deepEqual(rowsOf(end), rowsOf(file, expected(population)))
})

test('Postgres to Postgres', async (t) => {
  const { file, population } = await populated(t)
  const [first, second, end] = [await freshDatabase(t), await freshDatabase(t), await newFile(t)]
  await copyAll(`sqlite:${file}`, first, population)
  await copyAll(first, second, population)
  await copyAll(second, `sqlite:${end}`, population)
  assert.deepEqual(rowsOf(end), rowsOf(file, expected(population)))
})

test('a server runs on the copy: fair order, fences, cached responses, idempotency keys and callbacks', async (t) => {
  const { file, population } = await populated(t)
  const clock = { ms: population.nowMs }
  const url = await freshDatabase(t)
  await copyAll(`sqlite:${file}`, url, population)
  const inLine = all(
    file,
    `select id, attempt + 1 as attempt, deaths from jobs j where settled_at_ms is null
     order by deaths desc, iif(deaths > 0, '', route), ${TURN}, id`,
  )
  const store = await openStore(url, options('new', clock))
  t.after(() => store.close())

  assert.equal((await store.findKey('hash of key_acme_a'))?.account, 'acme')
  assert.notEqual(await store.findResponse(population.keptFingerprint, clock.ms), null)
  const { jobId, ...idempotency } = population.idempotencyKey
  const repeated = await store.accept(acceptance([newJob()], { idempotency, nowMs: clock.ms }))
  assert.deepEqual(repeated, { kind: 'repeated', jobIds: [jobId] })
  const claimed = await claimAll(store, 'new', clock.ms)
  const order = claimed.map(({ id, attempt, crashCount: deaths }) => ({ id, attempt, deaths }))
  assert.deepEqual(order, inLine)
  await store.rescue('new', clock.ms)
  const due = all(
    file,
    'select job_id from callbacks where due_at_ms <= ? or node is not null order by job_id',
    clock.ms,
  )
  const taken: DueCallback[] = []
  for (const lane of DELIVERY_QUEUES) {
    const take = { node: 'new', queue: lane, limit: 10_000, nowMs: clock.ms, leaseUntilMs: clock.ms + 1000 }
    taken.push(...(await store.takeCallbacks(take)))
  }
  const expectedIds = due.map((row) => row.job_id)
  assert.deepEqual(jobIds(taken).sort(), expectedIds)
})

test('a server counts and queues what was copied, whatever the stores', async (t) => {
  const { file, population } = await populated(t)
  const clock = { ms: population.nowMs }
  const held = all(
    file,
    'select id, account, attempt + 1 as attempt, deaths from jobs where node is not null',
  )
  const [{ waiting = 0, begun = 0 } = {}] = all(
    file,
    "select count(*) as waiting, sum(attempt > 0 and route = '') as begun from jobs where settled_at_ms is null",
  )
  assert.ok(held.length > 0 && Number(begun) > held.length)
  const [middle, end] = [await freshDatabase(t), `sqlite:${await newFile(t)}`]
  await copyAll(`sqlite:${file}`, middle, population)
  await copyAll(middle, end, population)
  for (const url of [middle, end]) {
    const store = await openStore(url, options('new', clock))
    t.after(() => store.close())

    await t.test('the sums of quotas are those of what was copied', async () => {
      const stored = Object.entries(await countStored(url))
      assert.ok(stored.length > 1 && stored.some(([, { openJobs }]) => openJobs > 0))
      for (const [account, use] of stored) assert.deepEqual(await store.quotaUse(account), use, account)
    })

    await t.test('an assigned job is queued and reads as assigned, with no crash counted', async () => {
      const depth = await store.depth()
      assert.deepEqual([depth.waiting, depth.assigned], [waiting, 0])
      for (const { id, account } of held) {
        const read = await store.read(String(account), String(id), population)
        assert.equal(read?.status, 'assigned')
      }
    })

    await t.test('a new job is queued behind what was begun', async () => {
      await addAccounts(store, 'newcomer')
      const late = newJob({ id: 'ffffffff-0000-7000-8000-000000000000', account: 'newcomer' })
      await accept(store, [late], { node: 'new' })
      const line = await claimAll(store, 'new', clock.ms)
      const isHeld = new Set(held.map(({ id }) => id))
      assert.deepEqual(
        line
          .filter(({ id }) => isHeld.has(id))
          .map(({ id, account, attempt, crashCount: deaths }) => ({ id, account, attempt, deaths })),
        held,
      )
      const place = line.findIndex(({ id }) => id === late.id)
      const isBehind = place >= Number(begun) && place < Number(waiting)
      assert.ok(isBehind, `place ${place} of ${waiting}, ${begun} begun`)
    })
  }
})

test('what has expired is not copied; a shorter retention leaves more', async (t) => {
  const { file, population } = await populated(t)
  const end = await newFile(t)
  const day = { ...population, retentionMs: 86_400_000 }
  const { expired, ended } = await copyAll(`sqlite:${file}`, `sqlite:${end}`, day)
  assert.ok(expired > 500 && ended > 0, `${expired} expired, ${ended} ended`)
  const ids = new Set(all(end, 'select id from jobs').map(({ id }) => id))
  assert.ok(population.expired.every((id) => !ids.has(id)))
  const orphans = `select seq from kept_answers where seq not in (select seq from jobs)
    union all select seq from callbacks where seq not in (select seq from jobs)`
  assert.deepEqual(all(end, orphans), [])
})

test('a finished job is copied, however old, while its batch has yet to write its result', async (t) => {
  const file = await newFile(t)
  const clock = { ms: Date.now() }
  const store = await openStore(`sqlite:${file}`, options('one', clock))
  await addAccounts(store, 'acme')
  const held = { node: 'one', handedOff: true, nowMs: clock.ms }
  const [line, other] = await accept(store, [newJob(), newJob()], held)
  const batch = { id: newJob().id, account: 'acme', inputFileId: newJob().id, endpoint: '', aboutJson: '{}' }
  await store.createBatch({ ...batch, createdAtMs: clock.ms, deadlineMs: clock.ms }, 1)
  await store.claimBatches('one', 1)
  const started = [{ line: 1, customId: 'line', jobId: line.id }]
  assert.ok(await store.advanceBatch(stepOf(batch.id, 1, { node: 'one', started, nowMs: clock.ms })))
  for (const job of [line, other]) await settle(store, job, { node: 'one', nowMs: clock.ms })
  await store.close()
  const moment = { nowMs: clock.ms + 30 * 86_400_000, retentionMs: 86_400_000 }
  const [middle, end] = [await freshDatabase(t), await newFile(t)]
  const { ended, expired } = await copyAll(`sqlite:${file}`, middle, moment)
  assert.deepEqual([ended, expired], [1, 1])
  await copyAll(middle, `sqlite:${end}`, moment)
  assert.deepEqual(all(end, 'select id from jobs'), [{ id: line.id }])
})

test('a job that has waited for the budget of its account still reserves what it may cost', async (t) => {
  const clock = { ms: Date.now() }
  const [first, end] = [await freshDatabase(t), `sqlite:${await newFile(t)}`]
  const store = await openStore(first, options('one', clock))
  await addAccounts(store, 'acme')
  const waiting = { node: 'one', nowMs: clock.ms, route: BUDGET_ROUTE }
  const [job] = await accept(store, [newJob({ reserved: 0 })], waiting)
  const jobs = [{ jobId: job.id, reserved: 500, route: 'live/m', step: 1000 }]
  await store.queueWithinBudget({ account: 'acme', costCap: 1000, jobs, earlierJson: '{}', nowMs: clock.ms })
  await store.close()
  await copyAll(first, end, { nowMs: clock.ms, retentionMs: 86_400_000 })
  const copy = await openStore(end, options('two', clock))
  t.after(() => copy.close())
  assert.equal((await copy.quotaUse('acme')).reserved, 500)
})

test('jobs arrive in partitions, which are dropped as a whole when they have expired', async (t) => {
  const { file, population } = await populated(t)
  for (const retentionMs of [population.retentionMs, 36 * 3_600_000]) {
    const url = await freshDatabase(t)
    await copyAll(`sqlite:${file}`, url, { ...population, retentionMs })
    const client = await connect(t, url)
    const count = async (sql: string) =>
      Number((await client.query(`select count(*) as n from ${sql}`)).rows[0].n)
    const partitions = `pg_inherits where inhparent = 'jobs'::regclass`
    assert.deepEqual([await count('jobs_default'), await count('outcomes_default')], [0, 0])
    const [made, open] = [await count(partitions), await count('open_jobs')]
    assert.ok(made > 7 && (await count('jobs')) > open, `${made} partitions`)
    const clock = { ms: population.nowMs + 30 * 86_400_000 }
    await client.query('update callbacks set due_at_ms = null')
    const store = await openStore(url, { ...options('later', clock), retentionMs })
    await store.close()
    const left = await count(partitions)
    assert.ok(left < made && (await count('jobs')) >= open, `${left} of ${made} partitions`)
  }
})

test('a job from long ago or from the future goes to the default partition', async (t) => {
  const { file, population } = await populated(t)
  const [oldest, newest] = ['00000000', 'ffffffff'].map((start) => `${start}-0000-7000-8000-000000000000`)
  for (const [id, which] of [
    [oldest, 'min'],
    [newest, 'max'],
  ])
    change(
      file,
      `update jobs set id = '${id}' where id = (select ${which}(id) from jobs where settled_at_ms is null)`,
    )
  const url = await freshDatabase(t)
  await copyAll(`sqlite:${file}`, url, population)
  const { rows } = await (await connect(t, url)).query('select id from jobs_default order by id')
  assert.deepEqual(rows, [{ id: oldest }, { id: newest }])
})

test('large texts come in small batches', async (t) => {
  const file = await newFile(t)
  const clock = { ms: Date.now() }
  const store = await openStore(`sqlite:${file}`, options('one', clock))
  await addAccounts(store, 'acme')
  await store.close()
  const id = (n: number) => `01890a5d-ac96-7${String(n).padStart(3, '0')}-8000-000000000000`
  for (let n = 0; n < 40; n++) {
    const text = 'x'.repeat(1024 * 1024)
    change(
      file,
      `insert into jobs (id, seq, account, tier, model, status, turn, attempt, deaths, cache_ttl_s, input_tokens, has_callback, created_at_ms)
         values ('${id(n)}', ${n}, 'acme', 'user_max', 'm', 'pending', ${n}, 0, 0, 0, 0, 0, 1);
       insert into requests (seq, messages, response_format, callback) values (${n}, '${text}', '{}', null)`,
    )
  }
  const expiry = { nowMs: clock.ms, retentionMs: 1000 }
  const url = await freshDatabase(t)
  await copyAll(`sqlite:${file}`, url, expiry)
  for (const address of [`sqlite:${file}`, url]) {
    const source = await openTransferSource(address)
    const sizes: number[] = []
    for await (const batch of source.read('jobs', 0)) sizes.push(batch.length)
    await source.close()
    const sum = sizes.reduce((all, size) => all + size)
    assert.equal(sum, 40)
    assert.ok(Math.max(...sizes) <= 5, `batches of ${sizes}`)
  }
})
