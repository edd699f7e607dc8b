/** Implements `database.ts` for the Postgres database of a Parley. */
import type { Lifetime } from '../parley.ts'
import { connectPostgres } from '../postgres/connection.ts'
import type { Database } from './database.ts'

export async function openPostgres(t: Lifetime, url: string): Promise<Database> {
  const client = await connectPostgres(t, url)
  const query = async (sql: string) => (await client.query<Record<string, unknown>>(sql)).rows
  return {
    jobCount: async () => Number((await query('select count(*) as jobs from jobs'))[0]?.jobs),
    jobIds: async () => (await query('select id from jobs order by id')).map(({ id }) => String(id)),
    callbacks: async () =>
      (await query('select callback from jobs order by id')).map(({ callback }) =>
        JSON.parse(String(callback)),
      ),
    owed: async () =>
      (await query('select job_id, account from callbacks')).map(({ job_id, account }) => ({
        jobId: String(job_id),
        account: String(account),
      })),
    outcomes: async () =>
      (await query('select usage, receipt from outcomes order by id')).map(({ usage, receipt }) => ({
        usage: String(usage),
        receipt: String(receipt),
      })),
    deleteJobs: async () => {
      await query('with open as (delete from open_jobs) delete from jobs')
    },
    setCacheTtl: async (seconds) => {
      await query(`update jobs set cache_ttl_s = ${seconds}`)
    },
    rejectOutcomes: async (holding) => {
      const accepted = `coalesce(content, '') not like '%${holding}%'`
      await query(`alter table outcomes add constraint rejected check (${accepted}) not valid`)
      return async () => {
        await query('alter table outcomes drop constraint rejected')
      }
    },
    holdWrites: async () => {
      await query('begin')
      await query('lock table jobs in exclusive mode')
      return async () => {
        await query('rollback')
      }
    },
  }
}
