/**
 * Simulates a node of version 0.1 on Postgres, which keeps writing while newer nodes start. Its statements are exactly those of
 * version 0.1, prepared by name, on a schema that newer nodes may have migrated. Every statement here must keep working.
 */
import pg from 'pg'
import type { Job } from '../../src/job/job.ts'
import { MIGRATIONS } from '../../src/store/postgres/migrations.ts'
import type { Settlement } from '../../src/store/store.ts'
import {
  columnsOf03,
  ENDED_AT_ONCE,
  FREED,
  NEW_ENDED_JOBS,
  NEW_JOBS,
  OldVersionNode,
  OWED_AND_KEPT,
  STORED,
  WHICH_SETTLED,
} from './old-version.ts'

export class FirstVersionNode extends OldVersionNode {
  static async start(url: string, name: string): Promise<FirstVersionNode> {
    const client = new pg.Client(url)
    await client.connect()
    await client.query(
      `create table schema_version (version integer not null); insert into schema_version values (1)`,
    )
    await client.query(MIGRATIONS[0] ?? '')
    return new FirstVersionNode(client, name)
  }

  async accept(jobs: readonly Job[]): Promise<void> {
    const origins = jobs.map(() => null)
    await this.run('accept held', ACCEPT_HELD, [...columnsOf03(jobs), origins, jobs[0]?.createdAtMs])
  }

  async claim(limit: number, nowMs: number): Promise<string[]> {
    const rows = await this.run('claim', CLAIM, [0, limit, 2_147_483_647, 0, nowMs])
    return rows.map(({ id }) => String(id))
  }

  async rescue(nowMs: number): Promise<number> {
    return (await this.run('rescue', RESCUE, [0, nowMs])).length
  }

  async settle(settlements: readonly Settlement[]): Promise<boolean[]> {
    const rows = await this.run('settle', SETTLE, settlementColumns(settlements))
    return settlements.map(({ jobId }) => rows.find(({ id }) => id === jobId)?.freed === true)
  }

  async acceptEnded(jobs: readonly Job[], settlements: readonly Settlement[]): Promise<void> {
    const values = [...columnsOf03(jobs), ...settlementColumns(settlements)]
    await this.run('accept ended', ACCEPT_ENDED, values)
  }

  /** Creates partitions for these IDs in advance, as nodes do. */
  async makePartitions(name: string, from: string, to: string): Promise<void> {
    for (const table of ['jobs', 'outcomes']) {
      await this.client.query(`create table ${table}_${name} (like ${table} including all)`)
      await this.client.query(
        `alter table ${table} attach partition ${table}_${name} for values from ('${from}') to ('${to}')`,
      )
    }
  }

  async dropPartitions(name: string): Promise<void> {
    await this.client.query(`drop table jobs_${name}, outcomes_${name}`)
  }
}

function settlementColumns(settlements: readonly Settlement[]): unknown[][] {
  return [
    settlements.map(({ jobId }) => jobId),
    settlements.map(({ attempt }) => attempt),
    settlements.map(({ outcome }) => outcome.status),
    settlements.map(({ outcome }) => (outcome.status === 'completed' ? outcome.contentJson : null)),
    settlements.map(({ outcome }) => (outcome.status === 'failed' ? JSON.stringify(outcome.error) : null)),
    settlements.map(({ usage }) => JSON.stringify(usage)),
    settlements.map(({ receiptJson }) => receiptJson),
    settlements.map(({ cache: keep }) => keep?.fingerprint ?? null),
    settlements.map(({ cache: keep }) => Math.ceil(keep?.untilMs ?? 0)),
    settlements.map(({ nowMs }) => nowMs),
  ]
}

const WRITTEN = `written as (
    insert into outcomes (id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms,
      settled_at_ms)
    select id, status, content, error, usage, receipt, $1::text, attempt, deaths, claimed_at_ms, now_ms
    from s join freed using (id)
  )`
const ACCEPT_HELD = `
  ${NEW_JOBS}
  ${STORED}
  insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin)
  select id, account, callback is not null, null, $1::text, 1, 0, $13::bigint, origin
  from n join stored using (id)`
const CLAIM = `
  with suspects as (
    select id, turn from open_jobs where turn is not null and deaths > 0 and deaths >= $4::integer
    order by turn, id limit $5::bigint for update skip locked
  ),
  died as (
    select id, turn from open_jobs where turn is not null and deaths > 0 and deaths < $4::integer
    order by turn, id limit $3::bigint for update skip locked
  ),
  others as (
    select id, turn from open_jobs where turn is not null and turn >= $2::bigint and deaths = 0
    order by turn, id limit $3::bigint for update skip locked
  ),
  first as (
    select * from suspects union all select * from died union all select * from others limit $3::bigint
  ),
  taken as (
    update open_jobs set turn = null, node = $1, attempt = attempt + 1, claimed_at_ms = $6::bigint
    where id = any (array (select id from first)) returning id, attempt, deaths
  )
  select j.*, t.attempt, t.deaths, f.turn
  from taken t join first f on f.id = t.id join jobs j on j.id = t.id order by f.turn, f.id`
const RESCUE = `
  with recursive dead as (
    delete from nodes where node <> $1 and lease_until < clock_timestamp() returning node
  ),
  holders as (
    (select node from callbacks where node is not null order by node limit 1)
    union all
    select (select c.node from callbacks c where c.node > h.node order by c.node limit 1)
    from holders h where h.node is not null
  ),
  callbacks_freed as (
    update callbacks c set node = null, under_way = false, due_at_ms = least(c.due_at_ms, $3::bigint)
    where c.node in (select h.node from holders h where h.node is not null and h.node <> $1
    and (h.node in (select node from dead) or not exists (select 1 from nodes n where n.node = h.node)))
  )
  update open_jobs o set node = null, deaths = o.deaths + 1, turn = coalesce((select turn from open_jobs where turn >= $2::bigint order by turn, id limit 1), $2::bigint) where o.node is not null and o.node <> $1
    and (o.node in (select node from dead) or not exists (select 1 from nodes n where n.node = o.node))
  returning o.turn`
const SETTLE = `
  with s as (select * from unnest($2::uuid[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[]) as s(id, attempt, status, content, error, usage, receipt, fingerprint, until_ms, now_ms)),
  ${FREED},
  ${WRITTEN},
  ${OWED_AND_KEPT}
  ${WHICH_SETTLED}`
const ACCEPT_ENDED = `
  ${NEW_ENDED_JOBS}
  ${STORED},
  s as (select * from unnest($12::uuid[], $13::integer[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[], $21::bigint[]) as s(id, attempt, status, content, error, usage, receipt, fingerprint, until_ms, now_ms)),
  ${ENDED_AT_ONCE},
  ${WRITTEN},
  ${OWED_AND_KEPT}
  select 1`
