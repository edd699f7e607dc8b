/**
 * Contains what nodes of earlier versions on Postgres have in common: a connection, the columns of new jobs, and parts of
 * statements.
 */
import type pg from 'pg'
import type { Job } from '../../src/job/job.ts'
import { asItIs } from '../../src/store/compressed-text.ts'
import { NEW_JOB_NAMES, newJobColumns } from '../../src/store/postgres/columns.ts'

/** Version 0.3 knows these columns. This list never changes. */
const NAMES_OF_03 = [
  ...[
    'id',
    'account',
    'tier',
    'model',
    'cache_ttl_s',
    'input_tokens',
    'created_at_ms',
    'messages',
    'response_format',
  ],
  'callback',
]
const NAMES = NEW_JOB_NAMES.split(', ')

export function columnsOf03(jobs: readonly Job[]): unknown[] {
  const messages = jobs.map(({ messagesJson }) => asItIs(messagesJson))
  const columns = newJobColumns(jobs, messages)
  return NAMES_OF_03.map((name) => columns[NAMES.indexOf(name)])
}

export abstract class OldVersionNode {
  protected readonly client: pg.Client
  protected readonly name: string

  protected constructor(client: pg.Client, name: string) {
    this.client = client
    this.name = name
  }

  async stop(): Promise<void> {
    await this.client.end()
  }

  /** The statement's first value is the name of the node. */
  protected async run(name: string, text: string, values: readonly unknown[]): Promise<pg.QueryResultRow[]> {
    return (await this.client.query({ name, text, values: [this.name, ...values] })).rows
  }
}

export const NEW_JOBS =
  'with n as (select * from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::double precision[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[]) as n(id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback, origin)),'
export const NEW_ENDED_JOBS =
  'with n as (select * from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::double precision[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[]) as n(id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback)),'
export const STORED =
  'stored as (insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) select id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback from n  returning id)'
export const FREED = `freed as (
    delete from open_jobs o
    where o.id = any ($2::uuid[]) and o.node is not distinct from $1
      and ((o.id, o.attempt) in (select id, attempt from s)) is true
    returning o.id, o.account, o.has_callback, o.deaths, o.claimed_at_ms, o.origin
  )`
export const ENDED_AT_ONCE = `freed as (
    select id, account, callback is not null as has_callback, 0 as deaths, created_at_ms as claimed_at_ms
    from n join stored using (id)
  )`
export const OWED_AND_KEPT = `owed as (
    insert into callbacks (job_id, account, owed_since_ms, due_at_ms)
    select id, account, now_ms, now_ms from s join freed using (id) where has_callback
  ),
  kept as (
    insert into kept_answers (fingerprint, job_id, kept_at_ms, until_ms)
    select fingerprint, id, now_ms, until_ms from s join freed using (id) where fingerprint is not null
  )`
export const WHICH_SETTLED = `select s.id, f.id is not null as freed, f.origin,
    case when f.id is null then exists (
      select 1 from outcomes o where o.id = s.id and o.node = $1 and o.attempt = s.attempt
    ) end as before,
    case when f.id is null then exists (select 1 from jobs j where j.id = s.id) end as there
  from s left join freed f using (id)`
