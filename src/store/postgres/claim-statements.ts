/** The statements that claim jobs in Postgres. */

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
    where id = any (array (select id from fitted where fits)) returning id, attempt, earlier
  )
  select f.id, f.turn, f.deaths, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, bytes, t.attempt, t.earlier,
    case when fits then messages end as messages, case when fits then response_format end as response_format,
    case when fits then callback end as callback
  from fitted f left join taken t on t.id = f.id order by ${order}`

/** Routes with queued jobs: from each to the next in the index, whatever is queued between. */
const ROUTES = `
  routes (route) as (
    (select route from open_jobs where turn is not null order by route limit 1)
    union all
    select (select o.route from open_jobs o where o.turn is not null and o.route > r.route order by o.route limit 1)
    from routes r where r.route is not null
  )`

const notOf = (table: string, exceptRoutes: string | null) =>
  exceptRoutes === null ? '' : `and ${table}.route <> all (${exceptRoutes}::text[])`

const OTHERS = `
    select id, turn, deaths from open_jobs where turn is not null and turn >= $2::bigint and deaths = 0
    order by turn, id limit $3::bigint for update skip locked
  `
/** The first of the first jobs of each route. */
const othersExcept = (exceptRoutes: string) => `
    select o.id, o.turn, o.deaths from routes r cross join lateral (
      select id, turn, deaths from open_jobs
      where turn is not null and route = r.route and turn >= $2::bigint and deaths = 0
      order by turn, id limit $3::bigint for update skip locked
    ) o
    where r.route is not null ${notOf('r', exceptRoutes)} order by o.turn, o.id limit $3::bigint
  `

interface FirstOf {
  readonly account: string
  readonly crashCount: string
  readonly exceptRoutes: string | null
}

/** The first job of an account. If routes are passed over, only its first 64 are looked at. */
const firstOf = ({ account, crashCount, exceptRoutes }: FirstOf) =>
  exceptRoutes === null
    ? `select id, turn, deaths from open_jobs
      where turn is not null and account = ${account} and deaths < ${crashCount}::integer order by turn limit 1`
    : `select id, turn, deaths from open_jobs where turn is not null and id = (
        select f.id from (
          select id, turn, deaths, route from open_jobs where turn is not null and account = ${account} order by turn limit 64
        ) f
        where f.deaths < ${crashCount}::integer ${notOf('f', exceptRoutes)} order by f.turn limit 1
      )`

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
const claimHead = (exceptRoutes: string | null) => `
  with ${exceptRoutes === null ? '' : `recursive ${ROUTES},`}
  candidates as (
    select id, turn, deaths from open_jobs o where turn is not null and deaths > 0 and deaths >= $4::integer
      and (deaths < $9::integer or not exists (select 1 from crashes c where c.job_id = o.id and not c.confirmed))
      ${notOf('o', exceptRoutes)}
    order by turn, id limit $5::bigint for update skip locked
  ),
  crashed as (
    select id, turn, deaths from open_jobs o where turn is not null and deaths > 0 and deaths < $4::integer
      ${notOf('o', exceptRoutes)}
    order by turn, id limit $3::bigint for update skip locked
  ),
  others as (${exceptRoutes === null ? OTHERS : othersExcept(exceptRoutes)}),
  first as (
    select * from candidates union all select * from crashed union all select * from others limit $3::bigint
  ),
  ${claimFitting({ now: '$6', small: '$7', order: 'f.turn, f.id', counts: 'true', fits: 'total <= $8::bigint' })}`
export const CLAIM = { name: 'claim', text: claimHead(null) }
/** $10 routes to pass over. */
export const CLAIM_EXCEPT = { name: 'claim except routes', text: claimHead('$10') }

/**
 * $1 node, $2 limit, $3 the account to begin after, $4 the crash count of a poison candidate, $5 now, $6 and $7 which jobs fit, $8
 * accounts to pass over, $9 how many accounts to look at. From each account the walk goes to the next in the index, whatever is
 * queued between, and it ends when enough jobs are found.
 *
 * Jobs that are too large by themselves neither count as found nor are locked. If that leaves too few, the whole walk was
 * read: then the first of them is returned as too large, and the last as the one to continue after.
 */
const claimFirst = (exceptRoutes: string | null) => `
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
      ${firstOf({ account: 'w.account', crashCount: '$4', exceptRoutes })}
    ) o cross join lateral (
      select octet_length(messages) + octet_length(response_format) + coalesce(octet_length(callback), 0) as bytes
      from jobs where id = o.id limit 1
    ) j
    where w.account <> all ($8::text[])
  ),
  small as (
    select o.id, o.turn, o.deaths, l.place from looked l cross join lateral (
      ${firstOf({ account: 'l.account', crashCount: '$4', exceptRoutes })} for update skip locked
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
  })}`
export const CLAIM_FIRST = { name: 'claim first', text: claimFirst(null) }
/** $10 routes to pass over. */
export const CLAIM_FIRST_EXCEPT = { name: 'claim first except routes', text: claimFirst('$10') }

/** $1 node, $2 the account, $3 the crash count of a poison candidate, $4 now, $5 and $6 which jobs fit. */
const claimOf = (exceptRoutes: string | null) => `
  with first as (
    ${firstOf({ account: '$2', crashCount: '$3', exceptRoutes })} for update skip locked
  ),
  ${claimFitting({ now: '$4', small: '$5', order: 'f.id', counts: 'true', fits: 'bytes <= $5::bigint or total <= $6::bigint' })}`
export const CLAIM_OF = { name: 'claim of account', text: claimOf(null) }
/** $7 routes to pass over. */
export const CLAIM_OF_EXCEPT = { name: 'claim of account except routes', text: claimOf('$7') }

const OF_ROUTE = claimFitting({
  now: '$5',
  small: '$6',
  order: 'f.turn, f.id',
  counts: 'true',
  fits: 'total <= $7::bigint',
})

/** Jobs that are not poison candidates. */
const NO_CANDIDATE = 'deaths < $4::integer'
/** Poison candidates. For the crash count that is to fail, a parameter, every crash must be confirmed. */
const candidate = (maxCrashCount: string) => `deaths >= $4::integer
      and (deaths < ${maxCrashCount}::integer
        or not exists (select 1 from crashes c where c.job_id = open_jobs.id and not c.confirmed))`

/** $1 node, $2 limit, $3 the route, $4 the crash count of a poison candidate, $5 now, $6 and $7 which jobs fit, $8 jobs to pass over. */
const claimOfRoute = (crashes: string) => `
  with first as (
    select id, turn, deaths from open_jobs
    where turn is not null and route = $3 and ${crashes} and id <> all ($8::uuid[])
    order by turn, id limit $2::bigint for update skip locked
  ),
  ${OF_ROUTE}`
export const CLAIM_OF_ROUTE = { name: 'claim of route', text: claimOfRoute(NO_CANDIDATE) }
/** $9 the crash count that is to fail. */
export const CLAIM_CANDIDATE_OF_ROUTE = {
  name: 'claim candidate of route',
  text: claimOfRoute(candidate('$9')),
}

/**
 * The same, with $8 since when the route has been unavailable, $9 the time before which a wait must have begun, and $10 the least
 * id of that time. Jobs that were released to wait have times of their own, and are few; the others have waited since their
 * creation.
 */
const claimOverdue = (crashes: string) => `
  with tried as (
    select id, turn, deaths from open_jobs
    where turn is not null and attempt > 0 and waits_since_ms is not null and route = $3 and ${crashes}
      and greatest(waits_since_ms, $8::bigint) - waited_ms <= $9::bigint
    limit $2::bigint for update skip locked
  ),
  untried as (
    select id, turn, deaths from open_jobs
    where turn is not null and waits_since_ms is null and route = $3 and ${crashes}
      and id < $10::uuid and $8::bigint <= $9::bigint
    order by id limit $2::bigint for update skip locked
  ),
  first as (select * from tried union all select * from untried limit $2::bigint),
  ${OF_ROUTE}`
export const CLAIM_OVERDUE = { name: 'claim overdue', text: claimOverdue(NO_CANDIDATE) }
/** $11 the crash count that is to fail. */
export const CLAIM_OVERDUE_CANDIDATE = {
  name: 'claim overdue candidate',
  text: claimOverdue(candidate('$11')),
}
