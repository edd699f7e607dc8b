/**
 * The Postgres schema, as a list of migrations. A released migration is never changed; add a new one instead.
 *
 * Rows of `jobs` (conversations) and `outcomes` are never updated. Their partitions follow the time in the job's ID, and each
 * is dropped when everything in it has expired. What changes is in `open_jobs`: a small row for each unfinished job, queued or
 * held. So settling a job never rewrites its conversation, and vacuum has only a small table to process.
 */
import { COST_CAPS_MIGRATION } from './cost-caps.ts'
import { QUOTA_MIGRATIONS } from './quota-migrations.ts'

const first = `
create table accounts (
  name text primary key,
  tier text not null,
  secret text not null,
  previous_secret text,
  rotated_at_ms bigint
);

create table keys (
  id text primary key,
  account text not null,
  hash text not null unique,
  created_at_ms bigint not null,
  expires_at_ms bigint,
  revoked_at_ms bigint
);
create index keys_by_age on keys (created_at_ms, id);
create index keys_by_account on keys (account, created_at_ms, id);

create table jobs (
  id uuid primary key,
  account text not null,
  tier text not null,
  model text not null,
  cache_ttl_s double precision not null,
  input_tokens bigint not null,
  created_at_ms bigint not null,
  messages text not null,
  response_format text not null,
  callback text
) partition by range (id);
create table jobs_default partition of jobs default;

create table outcomes (
  id uuid primary key,
  status text not null,
  content text,
  error text,
  usage text not null,
  receipt text not null,
  node text not null,               -- who settled it, under which attempt: so that a settlement whose answer was lost
  attempt integer not null,         -- can be told from another's
  deaths integer not null default 0,
  claimed_at_ms bigint,
  settled_at_ms bigint not null
) partition by range (id);
create index on outcomes using brin (settled_at_ms);
create table outcomes_default partition of outcomes default;

create table open_jobs (
  id uuid primary key,
  account text not null,
  has_callback boolean not null,
  turn bigint,                      -- place in the line; null unless the job waits to be claimed
  node text,                        -- who holds it; null unless somebody does
  attempt integer not null,         -- claims so far: the fence of all later writes
  deaths integer not null,          -- claims that ended with the death of their node
  claimed_at_ms bigint,             -- when it was claimed last
  origin text                       -- the node where a caller waits for it; null where none does
) with (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0
);
create index open_jobs_in_line on open_jobs (turn, id) where turn is not null;
create index open_jobs_by_account on open_jobs (account, turn) where turn is not null;
-- Waiting jobs that were held when a node died: few, and found without walking the line.
create index open_jobs_that_died on open_jobs (turn, id) where turn is not null and deaths > 0;
-- Jobs that were given back and wait again: few, and none in a life without troubles.
create index open_jobs_returned on open_jobs (id) where turn is not null and attempt > 0;
create index open_jobs_held on open_jobs (node) where node is not null;

-- Which outcomes answer identical jobs.
create table kept_answers (
  fingerprint text not null,
  job_id uuid not null,
  kept_at_ms bigint not null,
  until_ms bigint not null
);
create index kept_answers_by_fingerprint on kept_answers (fingerprint);
create index kept_answers_by_end on kept_answers using brin (until_ms);

create table idempotency (
  account text not null,
  key text not null,
  fingerprint text not null,
  job_ids text not null,
  until_ms bigint not null,
  primary key (account, key)
);
create index idempotency_by_end on idempotency (until_ms);

-- Callbacks that are owed, written by the transaction that settles the job.
create table callbacks (
  job_id uuid primary key,
  account text not null,
  lane integer not null default 0,  -- 0 until the first attempt has failed, then 1
  attempt integer not null default 0, -- taken so often: the fence of what is recorded
  tries integer not null default 0, -- place in the schedule of attempts
  owed_since_ms bigint not null,
  due_at_ms bigint,                 -- when the next attempt may be made; null once delivered or failed for good
  node text,                        -- whose it is, to send or to wait for its turn; null unless it is somebody's
  under_way boolean not null default false, -- whether an attempt is
  delivered_at_ms bigint,
  failed_at_ms bigint,
  attempts text not null default '' -- a line of JSON each, oldest first
);
create index callbacks_due on callbacks (lane, due_at_ms) where due_at_ms is not null;
create index callbacks_held on callbacks (node) where node is not null;
create index callbacks_failed on callbacks (job_id) where failed_at_ms is not null;

-- The nodes that live: a lease by the clock of this database, and the turn each has claimed last.
create table nodes (
  node text primary key,
  lease_until timestamptz not null,
  turn bigint not null default 0
);

-- A row for the write that /readyz tries.
create table probe (at_ms bigint not null);
insert into probe values (0);
`

/** Nodes of the first version may still be running, so this migration removes nothing that they write or read. */
const adminActions = `
alter table accounts
  add column suspended_at_ms bigint,
  add column cap_jobs bigint,       -- null where the tier says, -1 for none
  add column cap_tokens bigint;

-- What ended, summed for ever. Settling writes only deltas, each statement rows of its own, so that no two nodes ever
-- wait for each other over the sum of an account; expiry folds them into the sums. What was used is both together.
create table usage (
  account text not null,
  month text not null,
  model text not null,
  jobs bigint not null,
  failed_jobs bigint not null,
  cache_hits bigint not null,
  calls bigint not null,
  input_tokens numeric not null,   -- no sum overflows, whatever a model server counts
  output_tokens numeric not null,
  primary key (account, month, model)
);
create table usage_deltas (
  account text not null,
  month text not null,
  model text not null,
  jobs bigint not null,
  failed_jobs bigint not null,
  cache_hits bigint not null,
  calls bigint not null,
  input_tokens numeric not null,   -- no sum overflows, whatever a model server counts
  output_tokens numeric not null
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);
create index usage_deltas_by_account on usage_deltas (account);

-- Cancelled jobs that a node has not been told of yet: one that it held, or that a caller waits for there.
create table cancelled_jobs (
  node text not null,
  job_id uuid not null,
  attempt integer not null,         -- that of the last claim, 0 where there was none
  at_ms bigint not null,
  primary key (node, job_id)
);

create table audit (
  id uuid primary key,
  at_ms bigint not null,
  who text not null,
  what text not null,
  account text,
  target text,
  details text not null,
  outcome text                      -- null until the act has ended
);
create index audit_by_account on audit (account, id);
`

/**
 * The column says who counts the outcome as usage: the node that stores it (true), or the trigger, for nodes of the first
 * version, which do not set the column (false). The next migration counts earlier outcomes (null).
 *
 * This migration stands alone, because running nodes wait for its lock on `outcomes`, and holding two such locks at once could
 * deadlock. When nodes of the first version are no longer supported, a later migration may drop the trigger, its function and
 * the column.
 */
const countForFirstVersion = `
alter table outcomes add column counted boolean;
alter table outcomes alter column counted set default false;
create function count_outcome() returns trigger language plpgsql as $$
begin
  insert into usage_deltas
    (account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens)
  select j.account, ${monthAt('new.settled_at_ms')}, j.model, 1, (new.status = 'failed')::integer,
    (new.usage::json ->> 'cache_hit')::boolean::integer, (new.usage::json ->> 'calls')::bigint,
    (new.usage::json ->> 'input_tokens')::numeric, (new.usage::json ->> 'output_tokens')::numeric
  from jobs j where j.id = new.id;
  return null;
end $$;
create trigger count_outcome after insert on outcomes
  for each row when (not new.counted) execute function count_outcome();
`

/** Reads all outcomes and their jobs once. It delays no other statement, because it locks only the rows that it inserts. */
const countWhatWasThere = `
set local enable_seqscan = on;
insert into usage (account, month, model, jobs, failed_jobs, cache_hits, calls, input_tokens, output_tokens)
select j.account, ${monthAt('o.settled_at_ms')}, j.model, count(*), count(*) filter (where o.status = 'failed'),
  count(*) filter (where (o.usage::json ->> 'cache_hit')::boolean), sum((o.usage::json ->> 'calls')::bigint),
  sum((o.usage::json ->> 'input_tokens')::numeric), sum((o.usage::json ->> 'output_tokens')::numeric)
from outcomes o join jobs j on j.id = o.id
where o.counted is null
group by 1, 2, 3;
`

function monthAt(ms: string): string {
  return `to_char(to_timestamp(${ms} / 1000.0) at time zone 'UTC', 'YYYY-MM')`
}

/**
 * The node of each crash is stored, so that the crash is reverted if the node was only paused. The trigger also serves earlier
 * nodes, which count crashes without storing the node.
 */
const crashesByNode = `
create table crashes (
  job_id uuid not null,
  attempt integer not null,         -- the claim that the crash ended
  node text not null,
  counted_at timestamptz not null default clock_timestamp(),
  confirmed boolean not null default false, -- whether the node has been absent for so long that jobs may fail for it
  primary key (job_id, attempt)
);
create index crashes_by_node on crashes (node);
create index crashes_unconfirmed on crashes (counted_at) where not confirmed;

create function record_crash() returns trigger language plpgsql as $$
begin
  insert into crashes (job_id, attempt, node) values (old.id, old.attempt, old.node) on conflict do nothing;
  return null;
end $$;
create trigger record_crash after update of deaths on open_jobs
  for each row when (new.deaths > old.deaths and old.node is not null) execute function record_crash();
`

/**
 * Claims skip the routes of jobs that wait for a model server, and the usage of their runs is stored. Earlier nodes do not set
 * these columns, so their jobs have no route and are claimed like others.
 */
const routes = `
alter table open_jobs
  add column route text not null default '', -- the targets that it may be sent to; empty if not known
  add column earlier text,          -- what its runs used and met, if one had to wait
  add column waits_since_ms bigint, -- when it was released to wait
  add column waited_ms bigint;      -- how long it had waited before that
create index open_jobs_by_route on open_jobs (route, turn, id) where turn is not null;
`

/**
 * Returns which idempotency keys of a group of requests are taken: those that are stored for a different request, or for an
 * equal request whose jobs all exist. If a request finds its own jobs, it repeats a commit whose outcome is unknown, so its key
 * counts as taken.
 *
 * The function locks all keys in sorted order before it reads, so two nodes cannot accept the same key at the same time, and
 * cannot deadlock. Each statement of a function sees what was committed before it. Versions up to 0.3 take the same lock, one
 * key at a time.
 *
 * Each `limit 1` makes the planner search an index. Otherwise it would keep a plan from when the tables were empty, and read a
 * whole table. Jobs are looked up in a separate statement, because it opens and locks each partition.
 */
const takenKeys = `
create function taken_keys(requests integer[], accounts text[], keys text[], fingerprints text[], ids text[], now_ms bigint)
returns table (request integer, fingerprint text, job_ids text) language plpgsql as $$
declare
  is_repeat boolean;
begin
  perform pg_advisory_xact_lock(lock) from (
    select distinct hashtextextended(u.account || chr(31) || u.key, 0) as lock
    from unnest(accounts, keys) as u(account, key) order by 1
  ) locks;
  for request, fingerprint, job_ids, is_repeat in
    select u.request, i.fingerprint, i.job_ids, i.fingerprint = u.fingerprint and i.job_ids <> u.ids
    from unnest(requests, accounts, keys, fingerprints, ids) as u(request, account, key, fingerprint, ids)
    cross join lateral (
      select * from idempotency as i where i.account = u.account and i.key = u.key limit 1
    ) i
    where i.until_ms > now_ms
  loop
    continue when is_repeat and exists (
      select 1 from json_array_elements_text(job_ids::json) as earlier(id)
      where (select j.id from jobs j where j.id = earlier.id::uuid limit 1) is null
    );
    return next;
  end loop;
end $$;
`

/**
 * Nodes up to version 0.3 record no starts, know no turns by route, and need the indexes `open_jobs_in_line`,
 * `open_jobs_by_account` and `open_jobs_that_died`. When these nodes are no longer supported, a later migration may drop the
 * indexes.
 */
const lanesAndSuspects = `
alter table open_jobs
  add column started integer not null default 0, -- the attempt under which the start of a suspect was recorded
  add column crashed_alone integer not null default 0; -- the crash count at which it crashed alone
create index open_jobs_in_lanes on open_jobs (account, route, turn, id) where turn is not null and deaths = 0;
create index open_jobs_suspected on open_jobs (deaths, turn, id) where turn is not null and deaths > 0;
alter table nodes add column turns text; -- how far the node has claimed each route, as JSON
`

const features = `
alter table nodes add column features text; -- what the node knows of what callers may ask for
`

const webhooks = `
alter table accounts add column webhook_url text; -- where they are sent; null for nowhere
`

/** `jobs` has the deadline for claims and operators, `open_jobs` to find queued jobs. The priority `normal` is null. */
const prioritiesAndDeadlines = `
alter table jobs add column priority text, add column deadline_ms bigint;
alter table open_jobs add column deadline_ms bigint;
create index open_jobs_by_deadline on open_jobs (deadline_ms) where turn is not null and deadline_ms is not null;
`

/** Postgres does not compress pieces, because compression would take most of the time of an upload. */
const files = `
create table files (
  id text collate "C" primary key,
  account text not null,
  filename text not null,
  purpose text not null,
  bytes bigint not null,
  created_at_ms bigint not null,
  complete boolean not null,
  remove_at_ms bigint               -- when it is removed: expired, or abandoned while it was written; 0 if it was deleted
);
create index files_by_account on files (account, id) include (bytes);
create index files_to_remove on files (remove_at_ms) where remove_at_ms is not null;

create table file_pieces (
  file_id text collate "C" not null,
  piece integer not null,
  content bytea not null,
  primary key (file_id, piece)
);
alter table file_pieces alter column content set storage external;
`

/** Operators add a row to request a rerun. Later it links the two jobs. */
const reruns = `
create table reruns (
  id text primary key,              -- the job that it repeats, and a number
  original_id uuid not null,
  with_callback integer not null,
  requested_at_ms bigint not null,
  taken_at_ms bigint,               -- when a node last began to make the job
  ended_at_ms bigint,               -- when the job was made, or refused
  rerun_id uuid,                    -- the new job
  refusal text                      -- why there is none
);
create index reruns_by_original on reruns (original_id);
create index reruns_by_job on reruns (rerun_id) where rerun_id is not null;
create index reruns_open on reruns (requested_at_ms) where ended_at_ms is null;
create index reruns_by_end on reruns (ended_at_ms) where ended_at_ms is not null;
`

const batches = `
create table batches (
  id text collate "C" primary key,
  account text not null,
  node text,                        -- which runs it; null for none yet
  version bigint not null,
  status text not null,
  endpoint text not null,
  input_file_id text not null,
  output_file_id text,
  error_file_id text,
  about text not null,              -- what its account said about it
  progress text not null,           -- how far it is
  created_at_ms bigint not null,
  deadline_ms bigint not null,
  cancelling_at_ms bigint,
  remove_at_ms bigint               -- when it is removed; null while it is open
);
create index batches_by_account on batches (account, id);
create index batches_open on batches (account, id) where remove_at_ms is null;
create index batches_to_remove on batches (remove_at_ms) where remove_at_ms is not null;

create table batch_lines (
  batch_id text collate "C" not null,
  line bigint not null,
  custom_id text not null,
  job_id text collate "C" not null,
  primary key (batch_id, line)
);
create index batch_lines_by_job on batch_lines (job_id);
`

const keyLabels = `
alter table keys add column label text; -- what the operator calls it
`

const adminTokens = `
alter table keys add column used_at_ms bigint; -- the beginning of the hour
create table admin_tokens (
  id text primary key,
  name text not null,
  hash text not null unique,
  read_only integer not null,
  created_at_ms bigint not null,
  expires_at_ms bigint,
  revoked_at_ms bigint
);
create unique index admin_tokens_by_name on admin_tokens (name) where revoked_at_ms is null;
`

/**
 * Amounts are in millionths of the currency. While a node up to version 0.3 is running, which knows no prices, other nodes use
 * none.
 */
const costs = `
alter table jobs add column reserved bigint; -- what it may cost; null if its model has no price
alter table open_jobs add column reserved bigint;
alter table usage add column cost numeric; -- null if no model had a price
alter table usage_deltas add column cost numeric;
alter table quota_sums add column reserved bigint not null default 0; -- what open jobs may cost
alter table quota_deltas add column reserved bigint not null default 0;
alter table accounts add column cap_cost bigint;
`

/** The index has jobs whose wait did not begin with their creation: they were released to wait, or have waited for budget. */
const waitingJobs = `
create index open_jobs_waiting on open_jobs (id) where turn is not null and waits_since_ms is not null;
`

const rates = `
create table rates (
  name text primary key, -- of the upstream, or of a model on it
  state text not null, -- JSON of upstreams/rate-window.ts
  version bigint not null
) with (fillfactor = 50);
`

/**
 * Nodes compress these texts (`compressed-text.ts`), so Postgres need not try. Nodes up to version 0.3 read such a text as
 * null, and would report completed jobs without a result. So no text is compressed while such a node has a row in `nodes`.
 */
const compressedMessages = `
alter table jobs add column messages_zstd bytea, add column messages_bytes integer, alter column messages drop not null;
alter table jobs alter column messages_zstd set storage external;
`
const compressedContents = `
alter table outcomes add column content_zstd bytea, add column content_bytes integer;
alter table outcomes alter column content_zstd set storage external;
`

/**
 * A key is free only if none of its jobs exists. Earlier versions freed it if one job was missing, and the others ran twice.
 */
const anyJobTakesKey = `
create or replace function taken_keys(requests integer[], accounts text[], keys text[], fingerprints text[], ids text[], now_ms bigint)
returns table (request integer, fingerprint text, job_ids text) language plpgsql as $$
declare
  is_repeat boolean;
begin
  perform pg_advisory_xact_lock(lock) from (
    select distinct hashtextextended(u.account || chr(31) || u.key, 0) as lock
    from unnest(accounts, keys) as u(account, key) order by 1
  ) locks;
  for request, fingerprint, job_ids, is_repeat in
    select u.request, i.fingerprint, i.job_ids, i.fingerprint = u.fingerprint and i.job_ids <> u.ids
    from unnest(requests, accounts, keys, fingerprints, ids) as u(request, account, key, fingerprint, ids)
    cross join lateral (
      select * from idempotency as i where i.account = u.account and i.key = u.key limit 1
    ) i
    where i.until_ms > now_ms
  loop
    continue when is_repeat and not exists (
      select 1 from json_array_elements_text(job_ids::json) as earlier(id)
      where (select j.id from jobs j where j.id = earlier.id::uuid limit 1) is not null
    );
    return next;
  end loop;
end $$;
`

export const MIGRATIONS: readonly string[] = [
  first,
  adminActions,
  countForFirstVersion,
  countWhatWasThere,
  crashesByNode,
  ...QUOTA_MIGRATIONS,
  routes,
  takenKeys,
  lanesAndSuspects,
  features,
  webhooks,
  prioritiesAndDeadlines,
  files,
  reruns,
  batches,
  keyLabels,
  adminTokens,
  costs,
  COST_CAPS_MIGRATION,
  waitingJobs,
  rates,
  compressedMessages,
  compressedContents,
  anyJobTakesKey,
]
