/** Claims queued jobs in Postgres: in fair order, or an account's first job each. */
import { numberOf, type Row, textOf } from '../rows.ts'
import type { ClaimBounds, Claimed, PoisonCandidates, Store } from '../store.ts'
import { readClaimedJob } from './columns.ts'
import type { PostgresParts } from './parts.ts'

/** Accounts that one claim looks at beside those that it must not claim for and those that it claims for. */
const MAX_PASSED_OVER = 256
const BEFORE_ALL_ACCOUNTS = ''
/** A crash count that no job reaches. */
const NEVER = 2_147_483_647
const NO_CANDIDATES: PoisonCandidates = { crashCount: NEVER, limit: 0, maxCrashCount: NEVER }

export function claimOperations({ database, queueHead }: PostgresParts): Pick<Store, 'claim'> {
  /** The account that was looked at last by a search by account. */
  let cursor = BEFORE_ALL_ACCOUNTS
  const searchTime = new SearchTime()

  const claimHead = async (node: string, limit: number, nowMs: number, bounds: ClaimBounds) => {
    const walk = queueHead.begin(performance.now())
    const { crashCount, limit: most, maxCrashCount } = bounds.candidates ?? NO_CANDIDATES
    const values = [node, walk.fromTurn, limit, crashCount, Math.min(limit, most), nowMs, ...bytesOf(bounds)]
    const rows = await database.query(CLAIM, [...values, maxCrashCount])
    // Jobs that crashed are found wherever the walk begins.
    const walked = rows.filter(({ deaths }) => deaths === 0)
    const turns = walked.filter(isClaimed).map((row) => numberOf(row, 'turn'))
    queueHead.end(walk, turns.length === 0 ? null : Math.max(...turns), performance.now())
    const left = walked.find((row) => !isClaimed(row))
    if (left) queueHead.joined(numberOf(left, 'turn'))
    return claimedOf(rows)
  }

  const claimOf = async (node: string, account: string, nowMs: number, bounds: ClaimBounds) => {
    const values = [node, account, crashCountOf(bounds), nowMs, ...bytesOf(bounds)]
    return claimedOf(await database.query(CLAIM_OF, values))
  }

  /** Looks at the accounts after the cursor; returns what it found, and whether that was nothing at all. */
  const searchFirst = async (node: string, limit: number, values: readonly unknown[]) => {
    const rows = await database.query(CLAIM_FIRST, [node, limit, cursor, ...values])
    const last = rows.at(-1)
    cursor = last ? textOf(last, 'account') : BEFORE_ALL_ACCOUNTS
    return { ...claimedOf(rows), isEmpty: last === undefined }
  }

  /** Goes around all accounts, a part of them at a time, until one has a job that fits. */
  const claimFirst = async (
    node: string,
    limit: number,
    nowMs: number,
    bounds: ClaimBounds,
    except: readonly string[],
  ): Promise<Claimed> => {
    const most = except.length + limit + MAX_PASSED_OVER
    const values = [crashCountOf(bounds), nowMs, ...bytesOf(bounds), except, most]
    let tooLarge: Claimed['tooLarge'] = null
    let hasWrapped = cursor === BEFORE_ALL_ACCOUNTS
    for (let startedMs = performance.now(); !searchTime.isSpent(startedMs); startedMs = performance.now()) {
      const found = await searchFirst(node, limit, values)
      searchTime.spend(performance.now() - startedMs)
      tooLarge ??= found.tooLarge
      if (found.jobs.length > 0) return { jobs: found.jobs, tooLarge }
      if (found.isEmpty && hasWrapped) break
      hasWrapped ||= found.isEmpty
    }
    return { jobs: [], tooLarge }
  }

  return {
    claim: (node, limit, nowMs, bounds = {}) => {
      const atMs = Math.floor(nowMs)
      const { exceptOf, ofAccount } = bounds
      if (ofAccount !== undefined) return claimOf(node, ofAccount, atMs, bounds)
      if (exceptOf !== undefined) return claimFirst(node, limit, atMs, bounds, exceptOf)
      return claimHead(node, limit, atMs, bounds)
    },
  }
}

/**
 * How much time the searches by account may take: a tenth, after the first second. Entries of claimed jobs stay in the index as
 * long as any older snapshot exists, and a search has to walk those of the accounts that it passes.
 */
class SearchTime {
  #spentMs = 0
  #atMs = 0

  isSpent(steadyMs: number): boolean {
    this.#spentMs = Math.max(0, this.#spentMs - (steadyMs - this.#atMs) / 10)
    this.#atMs = steadyMs
    return this.#spentMs > 1000
  }

  spend(ms: number): void {
    this.#spentMs += ms
  }
}

function crashCountOf({ candidates }: ClaimBounds): number {
  return (candidates ?? NO_CANDIDATES).crashCount
}

function bytesOf({ bytes }: ClaimBounds): readonly [small: number, max: number] {
  return bytes ? [bytes.small, bytes.max] : [Number.MAX_SAFE_INTEGER, 0]
}

function claimedOf(rows: readonly Row[]): Claimed {
  const left = rows.find((row) => !isClaimed(row))
  const tooLarge = left ? { account: textOf(left, 'account'), bytes: numberOf(left, 'bytes') } : null
  return { jobs: rows.filter(isClaimed).map(readClaimedJob), tooLarge }
}

/** One that is too large is returned without an attempt and without its texts. */
function isClaimed({ attempt }: Row): boolean {
  return attempt !== null
}

interface Parameters {
  readonly now: string
  /** The size up to which a job always fits. */
  readonly small: string
  /** Columns of `first`. */
  readonly order: string
  /** Whether a job that is not small counts in `total`. */
  readonly counts: string
  /** Whether a row fits, from its `bytes` and from the `total` of those that are not small up to and with it. */
  readonly fits: string
}

/**
 * Claims those jobs of `first` that fit, and returns all of them in order. Large texts stay outside of the rows until they are
 * returned, and `octet_length` does not fetch them.
 */
const claimFitting = ({ now, small, order, counts, fits }: Parameters) => `
  sized as (
    select f.*, j.*, sum(case when bytes > ${small}::bigint and ${counts} then bytes else 0 end) over (order by ${order}) as total
    from first f cross join lateral (
      select account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback,
        octet_length(messages) + octet_length(response_format) + coalesce(octet_length(callback), 0) as bytes
      from jobs where id = f.id limit 1
    ) j
  ),
  fitted as (select *, ${fits} as fits from sized),
  taken as (
    update open_jobs set turn = null, node = $1, attempt = attempt + 1, claimed_at_ms = ${now}::bigint
    where id = any (array (select id from fitted where fits)) returning id, attempt
  )
  select f.id, f.turn, f.deaths, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, bytes, t.attempt,
    case when fits then messages end as messages, case when fits then response_format end as response_format,
    case when fits then callback end as callback
  from fitted f left join taken t on t.id = f.id order by ${order}`

/**
 * $1 node, $2 the turn to begin at, $3 limit, $4 the crash count of a poison candidate, $5 how many of those, $6 now, $7 and $8
 * which jobs fit, $9 the crash count that is to fail, for which every crash must be confirmed. Jobs that were assigned in a
 * crash are few and have an index of their own, so that a walk that begins behind one that was passed over still finds it.
 *
 * Written so that the planner cannot mistake how few rows there are: each limit is a plain number (a tenth of the table is
 * what it takes a limit for that it must compute), ids come as an array, and the jobs of ids are looked up one by one. Joined
 * with what it took for a tenth, it read all of `open_jobs` for each claim. Rows are only locked as `first` asks for them, so
 * none is that is not looked at.
 */
export const CLAIM = {
  name: 'claim',
  text: `
  with candidates as (
    select id, turn, deaths from open_jobs o where turn is not null and deaths > 0 and deaths >= $4::integer
      and (deaths < $9::integer or not exists (select 1 from crashes c where c.job_id = o.id and not c.confirmed))
    order by turn, id limit $5::bigint for update skip locked
  ),
  crashed as (
    select id, turn, deaths from open_jobs where turn is not null and deaths > 0 and deaths < $4::integer
    order by turn, id limit $3::bigint for update skip locked
  ),
  others as (
    select id, turn, deaths from open_jobs where turn is not null and turn >= $2::bigint and deaths = 0
    order by turn, id limit $3::bigint for update skip locked
  ),
  first as (
    select * from candidates union all select * from crashed union all select * from others limit $3::bigint
  ),
  ${claimFitting({ now: '$6', small: '$7', order: 'f.turn, f.id', counts: 'true', fits: 'total <= $8::bigint' })}`,
}

/**
 * $1 node, $2 limit, $3 the account to begin after, $4 the crash count of a poison candidate, $5 now, $6 and $7 which jobs fit, $8
 * accounts to pass over, $9 how many accounts to look at. From each account the walk goes to the next in the index, whatever is
 * queued between, and it ends when enough jobs are found.
 *
 * Jobs that are too large by themselves neither count as found nor are locked. If that leaves too few, the whole walk was read:
 * then the first of them is returned as too large, and the last as the one to go on after.
 */
export const CLAIM_FIRST = {
  name: 'claim first',
  text: `
  with recursive walk (account, place) as (
    (select account, 1::bigint from open_jobs where turn is not null and account > $3::text order by account, turn limit 1)
    union all
    select (
      select o.account from open_jobs o where o.turn is not null and o.account > w.account
      order by o.account, o.turn limit 1
    ), w.place + 1
    from walk w where w.account is not null and w.place < $9::bigint
  ),
  looked as (
    select w.account, w.place, o.id, o.turn, o.deaths, j.bytes, j.bytes <= $6::bigint or j.bytes <= $7::bigint as alone
    from walk w cross join lateral (
      select id, turn, deaths from open_jobs where turn is not null and account = w.account and deaths < $4::integer
      order by turn limit 1
    ) o cross join lateral (
      select octet_length(messages) + octet_length(response_format) + coalesce(octet_length(callback), 0) as bytes
      from jobs where id = o.id limit 1
    ) j
    where w.account <> all ($8::text[])
  ),
  small as (
    select o.id, o.turn, o.deaths, l.place from looked l cross join lateral (
      select id, turn, deaths from open_jobs where turn is not null and account = l.account and deaths < $4::integer
      order by turn limit 1 for update skip locked
    ) o
    where l.alone limit $2::bigint
  ),
  large as (
    select id, turn, deaths, place from looked
    where not alone and (select count(*) from small) < $2::bigint
  ),
  first as (
    select * from small union all
    ((select * from large order by place limit 1) union (select * from large order by place desc limit 1))
  ),
  ${claimFitting({
    now: '$5',
    small: '$6',
    order: 'f.place',
    counts: 'bytes <= $7::bigint',
    fits: 'bytes <= $6::bigint or (bytes <= $7::bigint and total <= $7::bigint)',
  })}`,
}

/** $1 node, $2 the account, $3 the crash count of a poison candidate, $4 now, $5 and $6 which jobs fit. */
export const CLAIM_OF = {
  name: 'claim of account',
  text: `
  with first as (
    select id, turn, deaths from open_jobs
    where turn is not null and account = $2 and deaths < $3::integer order by turn limit 1 for update skip locked
  ),
  ${claimFitting({ now: '$4', small: '$5', order: 'f.id', counts: 'true', fits: 'bytes <= $5::bigint or total <= $6::bigint' })}`,
}
