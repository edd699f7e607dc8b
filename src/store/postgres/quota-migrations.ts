/**
 * The migrations of the Postgres schema for quotas. Nodes of versions 0.1 and 0.2 may still be running, so nothing that they
 * write or read is removed, and triggers count for them.
 */

/**
 * Never change this text, because released migrations contain it. `stored-bytes.ts` counts the same, and also compressed texts.
 */
const REQUEST_BYTES =
  'octet_length(j.messages) + octet_length(j.response_format) + coalesce(octet_length(j.callback), 0)'
const outcomeBytes = (row: string) =>
  `coalesce(octet_length(${row}.content), 0) + coalesce(octet_length(${row}.error), 0) + coalesce(octet_length(${row}.receipt), 0)`

const quotaTables = `
alter table accounts
  add column cap_open_jobs bigint,  -- null where the tier decides, -1 for none
  add column cap_stored_bytes bigint;

-- The hour in a job's id, counted from 1970, and the least id of an hour.
create function hour_of_job(id uuid) returns bigint language sql immutable parallel safe as $$
  select ('x' || substr(id::text, 1, 8) || substr(id::text, 10, 4))::bit(48)::bigint / 3600000
$$;
create function first_id_of_hour(hour bigint) returns uuid language sql immutable parallel safe as $$
  select (lpad(to_hex(hour * 3600000), 12, '0') || '00000000000000000000')::uuid
$$;
create function request_bytes(job uuid) returns bigint language sql stable as $$
  select (${REQUEST_BYTES})::bigint from jobs j where j.id = job
$$;

-- What is open and stored. Statements write only deltas, each rows of its own; expiry folds them into the sums.
create table quota_sums (
  account text not null,
  hour bigint not null,             -- of the job's id, so that the sums go with the partition
  open_jobs bigint not null,
  open_bytes bigint not null,       -- what open jobs asked
  ended_bytes bigint not null,      -- what ended jobs asked, and what came of them
  primary key (account, hour)
);
create index quota_sums_by_hour on quota_sums (hour);
create table quota_deltas (
  account text not null,
  hour bigint not null,
  open_jobs bigint not null,
  open_bytes bigint not null,
  ended_bytes bigint not null
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);
create index quota_deltas_by_account on quota_deltas (account);
`

/**
 * The trigger counts open jobs of nodes that do not set the bytes (-1). The bytes of earlier jobs are null. Each migration that
 * locks a busy table stands alone, because holding two locks could deadlock.
 */
const countOpenJobs = `
alter table open_jobs add column bytes bigint;
alter table open_jobs alter column bytes set default -1;
create function count_open_job() returns trigger language plpgsql as $$
begin
  insert into quota_deltas (account, hour, open_jobs, open_bytes, ended_bytes)
  values (new.account, hour_of_job(new.id), 1, request_bytes(new.id), 0);
  return null;
end $$;
create trigger count_open_job after insert on open_jobs
  for each row when (new.bytes < 0) execute function count_open_job();
`

/**
 * The trigger counts outcomes of nodes that do not set the bytes (-1). A job whose row was stored by the same transaction was
 * never open, because a node stores a job that is completed at once together with its outcome.
 */
const countStoredOutcomes = `
alter table outcomes add column bytes bigint;
alter table outcomes alter column bytes set default -1;
create function count_stored_outcome() returns trigger language plpgsql as $$
begin
  insert into quota_deltas (account, hour, open_jobs, open_bytes, ended_bytes)
  select j.account, hour_of_job(new.id), -j.was_open, -j.was_open * j.bytes, j.bytes + ${outcomeBytes('new')}
  from (
    select account, (${REQUEST_BYTES})::bigint as bytes,
      case when j.xmin = pg_current_xact_id()::xid then 0 else 1 end as was_open
    from jobs j where j.id = new.id
  ) j;
  return null;
end $$;
create trigger count_stored_outcome after insert on outcomes
  for each row when (new.bytes < 0) execute function count_stored_outcome();
`

/**
 * Reads all outcomes, their jobs and the open jobs once. Meanwhile, other nodes can read and write, but cannot drop expired
 * partitions.
 */
const countWhatIsStored = `
set local enable_seqscan = on;
insert into quota_sums (account, hour, open_jobs, open_bytes, ended_bytes)
select account, hour, sum(open_jobs), sum(open_bytes), sum(ended_bytes)
from (
  select j.account, hour_of_job(j.id) as hour, 0 as open_jobs, 0 as open_bytes,
    ${REQUEST_BYTES} + ${outcomeBytes('o')} as ended_bytes
  from outcomes o join jobs j on j.id = o.id where o.bytes is null
  union all
  select account, hour_of_job(id), 1, request_bytes(id), 0 from open_jobs where bytes is null
) counted
group by account, hour;
`

export const QUOTA_MIGRATIONS: readonly string[] = [
  quotaTables,
  countOpenJobs,
  countStoredOutcomes,
  countWhatIsStored,
]
