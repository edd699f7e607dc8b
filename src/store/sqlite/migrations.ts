/**
 * Lists the migrations of the SQLite schema. Never change a released migration; add a new one instead.
 *
 * A job has a row in each of three tables: `jobs`, `requests` (conversations) and `outcomes`. Only the small rows of `jobs` are
 * updated, so settling a job never rewrites its conversation.
 */

const first = `
create table accounts (
  name text primary key,
  tier text not null,
  secret text not null,
  previous_secret text,
  rotated_at_ms integer
) without rowid, strict;

create table keys (
  id text primary key,
  account text not null,
  hash text not null unique,
  created_at_ms integer not null,
  expires_at_ms integer,
  revoked_at_ms integer
) without rowid, strict;
create index keys_by_age on keys (created_at_ms, id);
create index keys_by_account on keys (account, created_at_ms, id);

create table jobs (
  id text primary key,
  seq integer not null,             -- the row of this job in requests and outcomes
  account text not null,
  tier text not null,
  model text not null,
  status text not null,
  turn integer,                     -- place in the line; null unless the job waits to be claimed
  node text,                        -- who holds it; null unless somebody does
  attempt integer not null,         -- claims so far: the fence of all later writes
  deaths integer not null,          -- claims that ended with the death of their node
  cache_ttl_s real not null,
  input_tokens integer not null,
  has_callback integer not null,
  created_at_ms integer not null,
  claimed_at_ms integer,
  settled_at_ms integer
) without rowid, strict;

create index jobs_in_line on jobs (turn, id) where turn is not null;
create index jobs_by_age on jobs (id) where turn is not null;
-- Waiting jobs that were held when a node died: few, and found without walking the line.
create index jobs_that_died on jobs (turn, id) where turn is not null and deaths > 0;
-- Jobs that were given back and wait again: few, and none in a life without troubles.
create index jobs_returned on jobs (id) where turn is not null and attempt > 0;
create index jobs_held on jobs (node) where node is not null;

create table requests (
  seq integer primary key,
  messages text not null,
  response_format text not null,
  callback text
) strict;

create table outcomes (
  seq integer primary key,
  content text,
  error text,
  usage text not null,
  receipt text not null
) strict;

-- Which outcomes answer identical jobs; found through an index in memory (kept-answers.ts).
create table kept_answers (
  seq integer primary key,
  fingerprint text not null,
  until_ms integer not null
) strict;

create table idempotency (
  account text not null,
  key text not null,
  fingerprint text not null,
  job_ids text not null,
  until_ms integer not null,
  primary key (account, key)
) without rowid, strict;
create index idempotency_by_end on idempotency (until_ms);

-- Callbacks that are owed, written by the transaction that settles the job.
create table callbacks (
  seq integer primary key,
  job_id text not null,
  account text not null,
  lane integer not null default 0,  -- 0 until the first attempt has failed, then 1
  attempt integer not null default 0, -- taken so often: the fence of what is recorded
  tries integer not null default 0, -- place in the schedule of attempts
  owed_since_ms integer not null,
  due_at_ms integer,                -- when the next attempt may be made; null once delivered or failed for good
  node text,                        -- whose it is, to send or to wait for its turn; null unless it is somebody's
  under_way integer not null default 0, -- whether an attempt is
  delivered_at_ms integer,
  failed_at_ms integer,
  attempts text not null default '' -- a line of JSON each, oldest first
) strict;
create index callbacks_due on callbacks (lane, due_at_ms) where due_at_ms is not null;
create index callbacks_failed on callbacks (seq) where failed_at_ms is not null;

-- Fair order between accounts: the turn last claimed, and the next turn of each account that has queued jobs.
create table line (turn integer not null) strict;
insert into line values (0);
create table turns (account text primary key, next_turn integer not null) without rowid, strict;

-- A row for the write that /readyz tries.
create table probe (at_ms integer not null) strict;
insert into probe values (0);
`

/**
 * Adds usage, caps, suspended accounts, cancelled jobs and the audit log. Jobs that were settled before this migration count as
 * usage, too.
 */
const second = `
alter table accounts add column suspended_at_ms integer;
alter table accounts add column cap_jobs integer;
alter table accounts add column cap_tokens integer;

create index jobs_waiting_by_account on jobs (account, id) where turn is not null;

-- Written at the end of the transaction that settles.
create table usage (
  account text not null,
  month text not null,              -- in UTC, such as 2026-11
  model text not null,
  jobs integer not null,
  failed_jobs integer not null,
  cache_hits integer not null,
  calls integer not null,
  input_tokens integer not null,
  output_tokens integer not null,
  primary key (account, month, model)
) without rowid, strict;
insert into usage
select j.account, strftime('%Y-%m', j.settled_at_ms / 1000, 'unixepoch'), j.model, count(*), sum(j.status = 'failed'),
  sum(o.usage ->> 'cache_hit'), sum(o.usage ->> 'calls'), sum(o.usage ->> 'input_tokens'), sum(o.usage ->> 'output_tokens')
from jobs j join outcomes o on o.seq = j.seq
where j.settled_at_ms is not null
group by 1, 2, 3;

-- Until the server has taken note of them, wherever they were cancelled.
create table cancelled_jobs (job_id text primary key, attempt integer not null) without rowid, strict;

create table audit (
  id text primary key,
  at_ms integer not null,
  who text not null,
  what text not null,
  account text,
  target text,
  details text not null,
  outcome text                      -- null while it is under way
) without rowid, strict;
create index audit_by_account on audit (account, id);
`

/**
 * Adds quotas: the limits of accounts, and how many jobs and bytes each account has. The next start of a server counts the jobs
 * that are already stored (`countOnce`).
 */
const third = `
alter table accounts add column cap_open_jobs integer;
alter table accounts add column cap_stored_bytes integer;

-- Written at the end of each transaction that accepts, settles or deletes jobs.
create table quota_sums (
  account text primary key,
  open_jobs integer not null,
  stored_bytes integer not null
) without rowid, strict;

-- 0 until the jobs that earlier versions stored are in the sums.
create table quota_state (counted integer not null) strict;
insert into quota_state values (0);
`

/** Lets jobs wait for a model server: claims skip their route, and the usage of their runs is stored. */
const fourth = `
alter table jobs add column route text not null default ''; -- the targets that it may be sent to; empty if not known
alter table jobs add column earlier text; -- what its runs used and met, if one had to wait
alter table jobs add column waits_since_ms integer; -- when it was released to wait
alter table jobs add column waited_ms integer; -- how long it had waited before that
create index jobs_by_route on jobs (route, turn, id) where turn is not null;
`

/**
 * Adds the indexes for claims by route, lane and suspects. The next start of a server drops the indexes that these replace
 * (`dropUnusedIndexes`). This migration does not, because a command may apply it while a server of an earlier version still
 * uses them. The tables `line` and `turns` are no longer used.
 */
const fifth = `
alter table jobs add column started integer not null default 0; -- the attempt under which the start of a suspect was recorded
alter table jobs add column crashed_alone integer not null default 0; -- the crash count at which it crashed alone
create index jobs_in_lanes on jobs (account, route, turn, id) where turn is not null and deaths = 0;
create index jobs_suspected on jobs (deaths, turn, id) where turn is not null and deaths > 0;
`

const sixth = `
alter table accounts add column webhook_url text; -- where they are sent; null for nowhere
`

const seventh = `
alter table jobs add column priority text; -- null for normal
alter table jobs add column deadline_ms integer; -- null for never
create index jobs_by_deadline on jobs (deadline_ms) where turn is not null and deadline_ms is not null;
`

const eighth = `
create table files (
  id text primary key,
  account text not null,
  filename text not null,
  purpose text not null,
  bytes integer not null,
  created_at_ms integer not null,
  complete integer not null,
  remove_at_ms integer              -- when it is removed: expired, or abandoned while it was written; 0 if it was deleted
) without rowid, strict;
create index files_by_account on files (account, id, bytes);
create index files_to_remove on files (remove_at_ms) where remove_at_ms is not null;

create table file_pieces (
  file_id text not null,
  piece integer not null,
  content blob not null,
  primary key (file_id, piece)
) strict;
`

/** Adds reruns: what operators request, and later the link between the two jobs. */
const ninth = `
create table reruns (
  id text primary key,              -- the job that it repeats, and a number
  original_id text not null,
  with_callback integer not null,
  requested_at_ms integer not null,
  taken_at_ms integer,              -- when a node last began to make the job
  ended_at_ms integer,              -- when the job was made, or refused
  rerun_id text,                    -- the new job
  refusal text                      -- why there is none
) without rowid, strict;
create index reruns_by_original on reruns (original_id);
create index reruns_by_job on reruns (rerun_id) where rerun_id is not null;
create index reruns_open on reruns (requested_at_ms) where ended_at_ms is null;
create index reruns_by_end on reruns (ended_at_ms) where ended_at_ms is not null;
`

const tenth = `
create table batches (
  id text primary key,
  account text not null,
  node text,                        -- which runs it; null for none yet
  version integer not null,
  status text not null,
  endpoint text not null,
  input_file_id text not null,
  output_file_id text,
  error_file_id text,
  about text not null,              -- what its account said about it
  progress text not null,           -- how far it is
  created_at_ms integer not null,
  deadline_ms integer not null,
  cancelling_at_ms integer,
  remove_at_ms integer              -- when it is removed; null while it is open
) without rowid, strict;
create index batches_by_account on batches (account, id);
create index batches_open on batches (account, id) where remove_at_ms is null;
create index batches_to_remove on batches (remove_at_ms) where remove_at_ms is not null;

create table batch_lines (
  batch_id text not null,
  line integer not null,
  custom_id text not null,
  job_id text not null,
  primary key (batch_id, line)
) without rowid, strict;
create index batch_lines_by_job on batch_lines (job_id);
`

const eleventh = `
alter table keys add column label text; -- what the operator calls it
`

const twelfth = `
alter table keys add column used_at_ms integer; -- the beginning of the hour
create table admin_tokens (
  id text primary key,
  name text not null,
  hash text not null unique,
  read_only integer not null,
  created_at_ms integer not null,
  expires_at_ms integer,
  revoked_at_ms integer
) strict;
create unique index admin_tokens_by_name on admin_tokens (name) where revoked_at_ms is null;
`

/** Adds the cost of jobs, in millionths of the currency. */
const thirteenth = `
alter table jobs add column reserved integer; -- what it may cost; null if its model has no price
alter table usage add column cost integer; -- null if no model had a price
alter table quota_sums add column reserved integer not null default 0; -- what open jobs may cost
alter table accounts add column cap_cost integer;
`

/**
 * Adds an index of the jobs whose wait began after their creation: they were released to wait, or have waited for the budget of
 * their account.
 */
const fourteenth = `
create index jobs_waiting on jobs (id) where turn is not null and waits_since_ms is not null;
`

const fifteenth = `
alter table requests add column messages_bytes integer; -- before the bytes, so that SQLite need not read past them
alter table requests add column messages_zstd blob;
alter table outcomes add column content_bytes integer;
alter table outcomes add column content_zstd blob;
`

export const MIGRATIONS: readonly string[] = [
  first,
  second,
  third,
  fourth,
  fifth,
  sixth,
  seventh,
  eighth,
  ninth,
  tenth,
  eleventh,
  twelfth,
  thirteenth,
  fourteenth,
  fifteenth,
]
