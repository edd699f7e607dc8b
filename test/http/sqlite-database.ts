/** Implements `database.ts` for a Parley's SQLite file. */
import { DatabaseSync } from 'node:sqlite'
import { sqlitePath } from '../../src/store/open.ts'
import type { Lifetime } from '../parley.ts'
import type { Database } from './database.ts'

export function openSqlite(t: Lifetime, url: string): Database {
  const db = new DatabaseSync(sqlitePath(url), { timeout: 5000 })
  t.after(() => db.close())
  const query = (sql: string) => db.prepare(sql).all()
  return {
    jobCount: async () => Number(query('select count(*) as jobs from jobs')[0]?.jobs),
    jobIds: async () => query('select id from jobs order by id').map(({ id }) => String(id)),
    callbacks: async () =>
      query('select callback from requests order by seq').map(({ callback }) => JSON.parse(String(callback))),
    owed: async () =>
      query('select job_id, account from callbacks').map(({ job_id, account }) => ({
        jobId: String(job_id),
        account: String(account),
      })),
    outcomes: async () =>
      query('select usage, receipt from outcomes order by seq').map(({ usage, receipt }) => ({
        usage: String(usage),
        receipt: String(receipt),
      })),
    deleteJobs: async () => db.exec('delete from jobs'),
    setCacheTtl: async (seconds) => db.exec(`update jobs set cache_ttl_s = ${seconds}`),
    rejectOutcomes: async (holding) => {
      db.exec(
        `create trigger rejected before insert on outcomes when ifnull(new.content, '') like '%${holding}%'
         begin select raise(abort, 'rejected by a test'); end`,
      )
      return async () => db.exec('drop trigger rejected')
    },
    holdWrites: async () => {
      db.exec('begin immediate')
      return async () => db.exec('rollback')
    },
  }
}
