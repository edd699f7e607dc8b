/**
 * Simulates a node of version 0.2 on Postgres, which keeps writing while newer nodes start. Its statements are exactly those of
 * version 0.2, prepared by name, on a schema that newer nodes may have migrated. Every statement here must keep working.
 */
import pg from 'pg'
import type { Job } from '../../src/job/job.ts'
import { monthOf } from '../../src/job/month.ts'
import {
  CANCELLED_ERROR_JSON,
  CANCELLED_RECEIPT_JSON,
  CANCELLED_USAGE_JSON,
} from '../../src/job/results-without-call.ts'
import { asItIs } from '../../src/store/compressed-text.ts'
import { contentOf, settlementColumns } from '../../src/store/postgres/columns.ts'
import { MIGRATIONS } from '../../src/store/postgres/migrations.ts'
import type { Settlement } from '../../src/store/store.ts'
import {
  columnsOf03,
  ENDED_AT_ONCE,
  FREED,
  NEW_ENDED_JOBS,
  OldVersionNode,
  OWED_AND_KEPT,
  STORED,
  WHICH_SETTLED,
} from './old-version.ts'

/** Version 0.2 has this many migrations. */
export const SECOND_SCHEMA = 4

export class SecondVersionNode extends OldVersionNode {
  static async start(url: string, name: string): Promise<SecondVersionNode> {
    const client = new pg.Client(url)
    await client.connect()
    await client.query('create table schema_version (version integer not null)')
    for (const step of MIGRATIONS.slice(0, SECOND_SCHEMA)) await client.query(step)
    await client.query('insert into schema_version values ($1)', [SECOND_SCHEMA])
    const lease = "insert into nodes (node, lease_until) values ($1, clock_timestamp() + interval '1 hour')"
    await client.query(lease, [name])
    return new SecondVersionNode(client, name)
  }

  async accept(jobs: readonly Job[], handedOff: boolean): Promise<void> {
    const each = <T>(value: T) => jobs.map(() => value)
    const more = [each(null), each(handedOff), each(1000), 0, jobs[0]?.createdAtMs]
    await this.run('accept', ACCEPT, [...columnsOf03(jobs), ...more])
  }

  async acceptEnded(jobs: readonly Job[], settlements: readonly Settlement[]): Promise<void> {
    const values = [...columnsOf03(jobs), ...settlementColumnsOf2(settlements)]
    await this.run('accept ended', ACCEPT_ENDED, values)
  }

  /** The node must hold the jobs. Returns for each whether it was settled. */
  async settle(settlements: readonly Settlement[]): Promise<boolean[]> {
    const rows = await this.run('settle', SETTLE, settlementColumnsOf2(settlements))
    return settlements.map(({ jobId }) => rows.find(({ id }) => id === jobId)?.freed === true)
  }

  async cancel(jobId: string, nowMs: number): Promise<boolean> {
    const texts = ['operator', CANCELLED_ERROR_JSON, CANCELLED_USAGE_JSON, CANCELLED_RECEIPT_JSON]
    const values = [nowMs, monthOf(nowMs), ...texts, jobId]
    const { rows } = await this.client.query({ name: 'cancel job', text: CANCEL, values })
    return Number(rows[0]?.cancelled) > 0
  }

  /** Drops what was created in a period, as if all of it had expired. */
  async dropPartitions(fromS: number, toS: number): Promise<void> {
    await this.client.query(`drop table jobs_${fromS}_${toS}, outcomes_${fromS}_${toS}`)
  }
}

function settlementColumnsOf2(settlements: readonly Settlement[]): unknown[] {
  const columns = settlementColumns(settlements, settlements.map(contentOf).map(asItIs))
  const [error, , , content] = columns.slice(-4)
  return [...columns.slice(0, 3), content, error, ...columns.slice(3, -4)]
}

const WRITTEN = `written as (
    insert into outcomes (id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms,
      settled_at_ms, counted)
    select id, status, content, error, usage, receipt, $1::text, attempt, deaths, claimed_at_ms, now_ms, true
    from s join freed using (id)
  )`
const COUNTED = `counted as (
    insert into usage_deltas (account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens)
    select account, month, model, count(*), count(*) filter (where status = 'failed'),
      count(*) filter (where cache_hit), sum(calls), sum(input_tokens), sum(output_tokens)
    from s join freed using (id) group by account, month, model
  )`
const ACCEPT = `
  with n as (
    select * from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::double precision[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[], $13::boolean[], $14::bigint[])
      with ordinality as n(id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback, origin, handed_off, step, place)
  ),
  ${STORED},
  queued as (
    select id, account, step, sum(step) over (partition by account order by place) - step as ahead
    from n where not handed_off
  ),
  begins as (
    select account, greatest(
      $15::bigint,
      (select turn from open_jobs where turn >= $15::bigint order by turn, id limit 1),
      (select turn from open_jobs o where o.account = q.account and o.turn >= $15::bigint order by o.turn desc limit 1)
        + min(step)
    ) as turn from queued q group by account
  ),
  placed as (
    insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin)
    select n.id, n.account, n.callback is not null, b.turn + q.ahead,
      case when handed_off then $1::text end, case when handed_off then 1 else 0 end, 0,
      case when handed_off then $16::bigint end, origin
    from n join stored using (id) left join queued q using (id) left join begins b on b.account = q.account
    returning turn
  )
  select min(turn) as turn from placed`
const ACCEPT_ENDED = `
  ${NEW_ENDED_JOBS}
  ${STORED},
  s as (select * from unnest($12::uuid[], $13::integer[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[], $21::bigint[], $22::text[], $23::text[], $24::bigint[], $25::bigint[], $26::bigint[], $27::boolean[]) as s(id, attempt, status, content, error, usage, receipt, fingerprint, until_ms, now_ms,
  model, month, calls, input_tokens, output_tokens, cache_hit)),
  ${ENDED_AT_ONCE},
  ${WRITTEN},
  ${OWED_AND_KEPT},
  ${COUNTED}
  select 1`
const SETTLE = `
  with s as (select * from unnest($2::uuid[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::boolean[]) as s(id, attempt, status, content, error, usage, receipt, fingerprint, until_ms, now_ms,
  model, month, calls, input_tokens, output_tokens, cache_hit)),
  ${FREED},
  ${WRITTEN},
  ${OWED_AND_KEPT},
  ${COUNTED}
  ${WHICH_SETTLED}`
const CANCEL = `with 
  freed as (
    delete from open_jobs o where o.id = $7::uuid
    returning o.id, o.account, o.has_callback, o.attempt, o.deaths, o.claimed_at_ms, o.node, o.origin
  ),
  written as (
    insert into outcomes (id, status, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms, counted)
    select id, 'failed', $4, $5, $6, $3, attempt, deaths, claimed_at_ms, $1::bigint, true from freed
  ),
  owed as (
    insert into callbacks (job_id, account, owed_since_ms, due_at_ms)
    select id, account, $1::bigint, $1::bigint from freed where has_callback
  ),
  counted as (
    insert into usage_deltas (account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens)
    select f.account, $2, j.model, count(*), count(*), 0, 0, 0, 0
    from freed f cross join lateral (select model from jobs where id = f.id limit 1) j group by f.account, j.model
  ),
  told as (
    insert into cancelled_jobs (node, job_id, attempt, at_ms)
    select node, id, attempt, $1::bigint from freed where node is not null
    union all
    select origin, id, attempt, $1::bigint from freed where origin is not null and origin is distinct from node
    on conflict (node, job_id) do nothing
  )
  select (select count(*) from freed) as cancelled, exists (select 1 from jobs where id = $7::uuid) as there`
