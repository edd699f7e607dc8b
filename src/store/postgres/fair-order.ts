/**
 * Fair order (`job/tier.ts`) in Postgres: the turns of queued jobs. Here a turn is the greatest of the queue's turn,
 * the turn of the job at its head, and one step after the last queued job of its account. The head counts because nothing
 * records the turns of an account whose jobs all run: at the queue's turn, an account whose jobs come one by one would
 * always be next. The database decides all of it, so nodes need not agree on anything.
 */

/**
 * The parts `ordered` and `begins` of a statement: a queued job gets the turn at which the jobs of its account begin, plus what
 * its own are ahead of it. The planner expects few jobs where there may be thousands: it would join `ordered` to `jobs` row by row,
 * and compute `begins` for each row, so `ordered` has all columns of `jobs`, and `begins` is materialized.
 * @param turn the parameter with the queue's turn, as the node knows it
 * @param jobs the part with the new jobs
 */
export const queuedJobsInFairOrder = (turn: string, jobs: string) => `
  ordered as (
    select *, sum(step) filter (where not handed_off) over (partition by account order by place) - step as ahead from ${jobs}
  ),
  begins as materialized (
    select account, greatest(
      ${turn},
      (select turn from open_jobs where turn >= ${turn} order by turn, id limit 1),
      (select turn from open_jobs o where o.account = q.account and o.turn >= ${turn} order by o.turn desc limit 1)
        + min(step)
    ) as turn from ${jobs} q where not handed_off group by account
  )`

/** The turn of a job, for a statement that has joined `ordered n` to `begins b`; null if it was handed off. */
export const TURN_OF_JOB = 'case when not handed_off then b.turn + n.ahead end'
