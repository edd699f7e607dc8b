/**
 * Cost caps in Postgres: the function that finds which requests exceed the cap of their account, and the jobs that wait for the
 * budget of their account. `accept.ts` compares; `queue/job-creator.ts` decides whether jobs may wait.
 */
import { monthOf } from '../../job/month.ts'
import { numberOf, type Row, textOf, textOrNull } from '../rows.ts'
import { BUDGET_QUEUES, type BudgetedJobs, type CostCapStore, type JobOverBudget } from '../usage-store.ts'
import type { Statement } from './database.ts'
import { isInLane, queuedJobsInFairOrder, TURN_OF_JOB } from './fair-order.ts'
import { noteReturned } from './nodes.ts'
import type { PostgresParts } from './parts.ts'
import { QUOTA_COLUMNS } from './quotas.ts'

export function costCapOperations(parts: PostgresParts): Omit<CostCapStore, 'areOverBudget'> {
  const { database, walks } = parts
  return {
    accountsOverBudget: async () => {
      const rows = await database.query(ACCOUNTS, [BUDGET_QUEUES])
      return rows.map((row) => textOf(row, 'account'))
    },

    jobsOverBudget: async (account, limit) =>
      (await database.query(JOBS, [account, BUDGET_QUEUES, limit])).map(readJob),

    queueWithinBudget: async ({ costCap, jobs, earlierJson, nowMs }: BudgetedJobs) => {
      const rows = await database.query(QUEUE, [
        jobs.map(({ jobId }) => jobId),
        jobs.map(({ route }) => route),
        jobs.map(({ step }) => step),
        jobs.map(({ reserved }) => reserved),
        BUDGET_QUEUES,
        costCap,
        monthOf(nowMs),
        earlierJson,
        Math.floor(nowMs),
        walks.turnsJson(),
      ])
      const queued = rows.filter(({ route }) => route !== null)
      noteReturned(parts, queued)
      return {
        routes: queued.map((row) => textOf(row, 'route')),
        isCapReached: rows[0]?.is_cap_reached === true,
      }
    },
  }
}

function readJob(row: Row): JobOverBudget {
  return {
    id: textOf(row, 'id'),
    model: textOf(row, 'model'),
    tier: textOf(row, 'tier'),
    inputTokens: numberOf(row, 'input_tokens'),
    responseFormatJson: textOf(row, 'response_format'),
    priority: textOrNull(row, 'priority'),
  }
}

/**
 * $1 the queues of jobs that wait for budget. The recursion jumps in the index from one account with queued jobs to the next.
 */
export const ACCOUNTS: Statement = {
  repeatable: true,
  name: 'accounts over budget',
  text: `
  with recursive found (account) as (
    (select account from open_jobs where turn is not null and deaths = 0 order by account, route, turn, id limit 1)
    union all
    select (
      select o.account from open_jobs o where o.turn is not null and o.deaths = 0 and o.account > f.account
      order by o.account, o.route, o.turn, o.id limit 1
    ) from found f where f.account is not null
  )
  select account from found f where account is not null and exists (
    select 1 from unnest($1::text[]) as q(route) cross join lateral (
      select 1 from open_jobs
      where ${isInLane('f.account', 'q.route')}
      order by account, turn, id limit 1
    ) o
  )`,
}

const JOBS: Statement = {
  repeatable: true,
  name: 'jobs over budget',
  text: `
  select j.* from (
    select o.id, o.turn, q.place from unnest($2::text[]) with ordinality as q(route, place) cross join lateral (
      select id, turn from open_jobs
      where ${isInLane('$1', 'q.route')}
      order by account, turn, id limit $3::bigint
    ) o
    order by q.place, o.turn, o.id limit $3::bigint
  ) o cross join lateral (
    select id, model, tier, input_tokens, response_format, priority from jobs where id = o.id limit 1
  ) j
  order by o.place, o.turn, o.id`,
}

/**
 * $1 IDs, $2 routes, $3 steps, $4 reserved amounts, $5 the queues of jobs that wait for budget, $6 the cap or null, $7 the
 * month, $8 the state of earlier runs, $9 the current time, $10 the turns of routes. `over_cost_caps` locks the account, like
 * an acceptance.
 */
const QUEUE: Statement = {
  name: 'queue within budget',
  text: `
  with wanted as materialized (
    select u.id, u.route, u.step, u.reserved, u.place, o.account, false as handed_off
    from unnest($1::uuid[], $2::text[], $3::integer[], $4::bigint[]) with ordinality as u(id, route, step, reserved, place)
    cross join lateral (
      select account from open_jobs where id = u.id and turn is not null and route = any ($5::text[]) limit 1 for update
    ) o
  ),
  over as materialized (
    select request from over_cost_caps(
      array(select place::integer from wanted order by place), array(select account from wanted order by place),
      array(select reserved::numeric from wanted order by place), array(select $6::numeric from wanted),
      array(select null::uuid from wanted), $7::text
    )
  ),
  fitting as materialized (
    select * from wanted where place < (select coalesce(min(request), 2147483647) from over)
  ),
  ${queuedJobsInFairOrder('$10', 'fitting')},
  placed as (
    update open_jobs o set route = p.route, turn = p.turn, reserved = p.reserved, earlier = $8, waits_since_ms = $9::bigint, waited_ms = 0
    from (
      select n.id, route, n.reserved, ${TURN_OF_JOB} as turn from ordered n left join begins b using (account, route)
    ) p
    where o.id = p.id returning o.route, o.turn
  ),
  counted as (
    insert into quota_deltas (${QUOTA_COLUMNS})
    select account, hour_of_job(id), 0, 0, 0, sum(reserved) from fitting group by 1, 2
  )
  select c.is_cap_reached, p.route, p.turn
  from (select exists (select 1 from over) as is_cap_reached) c left join placed p on true`,
}

/**
 * Returns which requests of a group would exceed the cost cap of their account.
 *
 * The function locks the accounts before it reads, so that two nodes cannot accept what only one of them may. The locks are in
 * sorted order, after those of keys, so two nodes cannot deadlock. Each statement of a function sees what was committed before
 * it. One statement reads both sums, so a job that is settled meanwhile is in exactly one of them.
 *
 * If the first job of a request (`ids`) exists, an earlier try has accepted the request, but the outcome of its commit was
 * unknown.
 */
export const COST_CAPS_MIGRATION = `
create function over_cost_caps(
  requests integer[], accounts text[], costs numeric[], caps numeric[], ids uuid[], this_month text
)
returns table (request integer, used numeric) language plpgsql as $$
declare
  asked record;
  last_account text;
  total numeric;
begin
  perform pg_advisory_xact_lock(lock) from (
    select distinct hashtextextended('cost of ' || current_schema() || chr(31) || u.account, 0) as lock
    from unnest(accounts) as u(account) order by 1
  ) locks;
  for asked in
    select u.request, u.account, u.cost, u.cap, u.id
    from unnest(requests, accounts, costs, caps, ids) as u(request, account, cost, cap, id)
    order by u.account, u.request
  loop
    continue when asked.id is not null and exists (select 1 from jobs j where j.id = asked.id);
    if asked.account is distinct from last_account then
      last_account := asked.account;
      select coalesce(sum(s.amount), 0) into total from (
        select cost as amount from usage where account = last_account and month = this_month
        union all select cost from usage_deltas where account = last_account and month = this_month
        union all select reserved from quota_sums where account = last_account
        union all select reserved from quota_deltas where account = last_account
      ) s;
    end if;
    if total + asked.cost > asked.cap then
      request := asked.request;
      used := total;
      return next;
    else
      total := total + asked.cost;
    end if;
  end loop;
end $$;
`
