/**
 * Fair order (`job/tier.ts`) in Postgres: the turns of queued jobs. A turn is the greatest of the route's turn, the turn
 * of the job at its head, and one step after the last queued job of its account there. The head counts because nothing
 * records the turns of an account whose jobs all run: at the route's turn, an account whose jobs come one by one would
 * always be next. The database decides all of it, so nodes need not agree on anything.
 */

/**
 * How far the route has been claimed, as the node knows it.
 * @param turns the parameter with the turns of all routes, as `RouteWalks` writes them
 */
const turnOf = (turns: string, route: string) =>
  `greatest((${turns}::jsonb -> 'routes' ->> ${route})::bigint, (${turns}::jsonb ->> 'floor')::bigint)`

/** The turn of the first job that is queued from there on; null if there is none. */
const headFrom = (turn: string, route: string) =>
  `(select h.turn from open_jobs h where h.turn is not null and h.route = ${route} and h.turn >= ${turn}
        order by h.turn, h.id limit 1)`

/** The turn of the head of the route, so that returned jobs are claimed first. */
export const headTurn = (turns: string, route: string) =>
  `(select coalesce(${headFrom('r.turn', route)}, r.turn) from (select ${turnOf(turns, route)} as turn) r)`

/**
 * The parts `ordered` and `begins` of a statement: a queued job gets the turn at which the jobs of its account begin, plus what
 * its own are ahead of it. The planner expects few jobs where there may be thousands: it would join `ordered` to `jobs` row by row,
 * and compute `begins` for each row, so `ordered` has all columns of `jobs`, and `begins` is materialized.
 * @param jobs the part with the new jobs
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
        where o.turn is not null and o.deaths = 0 and o.account = q.account and o.route = q.route and o.turn > r.turn - q.step
        order by o.turn desc limit 1) + q.step
    ) as turn
    from (select account, route, min(step) as step from ${jobs} where not handed_off group by account, route) q
    cross join lateral (select ${turnOf(turns, 'q.route')} as turn) r
  )`

/** The turn of a job, for a statement that has joined `ordered n` to `begins b`; null if it was handed off. */
export const TURN_OF_JOB = 'case when not handed_off then b.turn + n.ahead end'
