/**
 * Fair order (`job/tier.ts`) in Postgres: the turns of queued jobs. The database computes them from the queue.
 *
 * An account whose jobs all run has no stored turn. Without the turn of the route's first job, the next job of this account
 * would get the turn up to which the route has been claimed, and would always be first.
 */

/**
 * Each node knows only up to which turn it has seen the route claimed.
 * @param turns the parameter with the turns of all routes, from `RouteWalks.turnsJson`
 */
const turnOf = (turns: string, route: string) =>
  `greatest((${turns}::jsonb -> 'routes' ->> ${route})::bigint, (${turns}::jsonb ->> 'floor')::bigint)`

/**
 * Finds queued jobs of the route, for statements that order by route, turn and id.
 *
 * The planner does not treat the array as an equality. With an equality, the order would not need the route, and the planner
 * might read the jobs of all routes in the order of their turns. The range tells the planner that there are few rows.
 * @param row the alias of `open_jobs`, with a dot
 */
export const isOnRoute = (route: string, row = ''): string =>
  `${row}turn is not null and ${row}route = any (array[${route}]) and ${row}route >= ${route} and ${row}route <= ${route}`

/** Finds queued jobs of the account that are not suspects, for statements that order by account, turn and id. */
export const isInLane = (account: string, route: string, row = ''): string =>
  `${row}turn is not null and ${row}deaths = 0 and ${row}account = any (array[${account}]) and ${row}route = ${route}`

const headFrom = (turn: string, route: string) =>
  `(select h.turn from open_jobs h
        where ${isOnRoute(route, 'h.')} and h.turn >= ${turn}
        order by h.route, h.turn, h.id limit 1)`

/** Jobs that return to the queue get the turn of the route's first job, so that they are claimed first. */
export const headTurn = (turns: string, route: string) =>
  `(select coalesce(${headFrom('r.turn', route)}, r.turn) from (select ${turnOf(turns, route)} as turn) r)`

/**
 * The CTEs `ordered` and `begins` of a statement that queues jobs. A job's turn is the turn at which the jobs of its account
 * begin, plus the steps of the account's jobs that are ahead of it in the statement.
 *
 * The planner expects few jobs although there may be thousands, so it would join `ordered` to `jobs` row by row, and compute
 * `begins` for each row. To prevent this, `ordered` has all columns of `jobs`, and `begins` is materialized.
 * @param jobs the CTE with the new jobs
 */
export const queuedJobsInFairOrder = (turns: string, jobs: string) => `
  ordered as (
    select *, sum(step) filter (where not handed_off) over (partition by account, route order by place) - step as ahead
    from ${jobs}
  ),
  begins as materialized (
    select account, route, greatest(
      r.turn,
      ${headFrom('r.turn', 'q.route')},
      (select o.turn from open_jobs o
        where ${isInLane('q.account', 'q.route', 'o.')} and o.turn > r.turn - q.step
        order by o.account desc, o.turn desc, o.id desc limit 1) + q.step
    ) as turn
    from (select account, route, min(step) as step from ${jobs} where not handed_off group by account, route) q
    cross join lateral (select ${turnOf(turns, 'q.route')} as turn) r
  )`

/** The statement must join `ordered n` to `begins b`. A job that is handed off has no turn. */
export const TURN_OF_JOB = 'case when not handed_off then b.turn + n.ahead end'
