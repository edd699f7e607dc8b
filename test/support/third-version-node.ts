/**
 * Simulates a node of version 0.3 on Postgres that accepts creates with idempotency keys while newer nodes do the same. Its
 * statements are exactly those of version 0.3, prepared by name, with a transaction for each create. Every statement here must
 * keep working.
 */
import pg from 'pg'
import type { Job } from '../../src/job/job.ts'
import type { Accepted, Idempotency } from '../../src/store/store.ts'
import { columnsOf03, NEW_JOBS } from './old-version.ts'

export class ThirdVersionNode {
  readonly #pool: pg.Pool
  readonly #name: string

  constructor(url: string, name: string, connections: number) {
    this.#pool = new pg.Pool({ connectionString: url, max: connections })
    // When the database is dropped, connections that the pool has not closed yet are ended.
    this.#pool.on('error', () => {})
    this.#name = name
  }

  async accept(jobs: readonly Job[], { key, fingerprint, untilMs }: Idempotency): Promise<Accepted> {
    const [{ account, createdAtMs } = { account: '', createdAtMs: 0 }] = jobs
    const client = await this.#pool.connect()
    const run = async (name: string, text: string, values: readonly unknown[] = []) =>
      (await client.query({ name, text, values: [...values] })).rows
    const decide = async (): Promise<Accepted> => {
      await run('lock key', LOCK_KEY, [account, key])
      const [earlier] = await run('find key', FIND_KEY, [account, key])
      if (earlier && Number(earlier.until_ms) > createdAtMs) {
        if (earlier.fingerprint !== fingerprint) return { kind: 'conflict' }
        const jobIds: string[] = JSON.parse(earlier.job_ids)
        const [found] = await run('count jobs', COUNT_JOBS, [jobIds])
        if (Number(found?.count) === jobIds.length) return { kind: 'repeated', jobIds }
      }
      const ids = JSON.stringify(jobs.map(({ id }) => id))
      const values = [this.#name, ...columnsOf03(jobs), jobs.map(() => null), Math.floor(createdAtMs)]
      await run('accept held', ACCEPT_HELD, values)
      await run('remember key', REMEMBER_KEY, [account, key, fingerprint, ids, untilMs])
      return { kind: 'accepted' }
    }
    try {
      await run('begin', 'begin')
      const accepted = await decide()
      await run('commit', 'commit')
      return accepted
    } finally {
      client.release()
    }
  }

  async stop(): Promise<void> {
    await this.#pool.end()
  }
}

const LOCK_KEY = 'select pg_advisory_xact_lock(hashtextextended($1 || chr(31) || $2, 0))'
const FIND_KEY = 'select fingerprint, job_ids, until_ms from idempotency where account = $1 and key = $2'
const REMEMBER_KEY = `insert into idempotency (account, key, fingerprint, job_ids, until_ms) values ($1, $2, $3, $4, $5)
    on conflict (account, key) do update set fingerprint = $3, job_ids = $4, until_ms = $5`
const COUNT_JOBS = 'select count(*) from jobs where id = any($1::uuid[])'
const ACCEPT_HELD = `
  ${NEW_JOBS}
  stored as (insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) select id, (select name from accounts where name = n.account), tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback from n  returning id),
  
  counted_open as (
    insert into quota_deltas (account, hour, open_jobs, open_bytes, ended_bytes)
    select account, hour_of_job(id), count(*), sum((octet_length(n.messages) + octet_length(n.response_format) + coalesce(octet_length(n.callback), 0))), 0 from n join stored using (id) group by 1, 2
  )
  insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin, bytes)
  select id, account, callback is not null, null, $1::text, 1, 0, $13::bigint, origin, (octet_length(n.messages) + octet_length(n.response_format) + coalesce(octet_length(n.callback), 0))
  from n join stored using (id)`
