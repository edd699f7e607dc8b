-- A database as Parley 0.1.0 left it: the first released schema, with data in it. Never edited.
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
create table jobs_1795219200_1795305600 partition of jobs FOR VALUES FROM ('01a1fb67-1800-0000-0000-000000000000') TO ('01a2008d-7400-0000-0000-000000000000');
create table outcomes_1795219200_1795305600 partition of outcomes FOR VALUES FROM ('01a1fb67-1800-0000-0000-000000000000') TO ('01a2008d-7400-0000-0000-000000000000');
insert into accounts (name, tier, secret, previous_secret, rotated_at_ms) values ('acme', 'user_max', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_8npzto5V9y2uIq1LVwLTI5Qj3qlfpT0IW7ESzItmnlY=', '1795279550068');
insert into accounts (name, tier, secret, previous_secret, rotated_at_ms) values ('small', 'user_free', 'whsec_PVp1II3I3DfYn9FmjnnkBiRwV6KqxqYcheAklLeaHV4=', null, null);
insert into keys (id, account, hash, created_at_ms, expires_at_ms, revoked_at_ms) values ('key_60746a2bf8464f8d', 'small', 'wCLhi-fnY0xl74gFIKoRiZ4FKKOrACk1r6jtr4rFJx0', '1795279550067', null, null);
insert into keys (id, account, hash, created_at_ms, expires_at_ms, revoked_at_ms) values ('key_8e415fa3274c2db9', 'acme', 't9v58XzSSwL2Zz8gWiUlq7IhBb-lkjXq4Ca-GWlX6v8', '1795279550065', null, null);
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f685-7000-9bb1-81ba3b5a79cc', 'acme', 'user_max', 'gpt-5-mini', 300, '41', '1795279550085', '[{"role":"user","content":"Grüße aus der ersten Fassung 🙂"}]', '{"format":"text"}', null);
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f6b1-7000-80eb-5b76f919b495', 'acme', 'user_max', 'gpt-5-mini', 300, '13', '1795279550129', '[{"role":"user","content":"{\"a\":1}"}]', '{"format":"json"}', null);
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f6b9-7000-9657-55516b20b762', 'acme', 'user_max', 'gpt-5-mini', 300, '9', '1795279550137', '[{"role":"user","content":"bad"}]', '{"format":"text"}', null);
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f6bf-7000-a8e2-a0943578a928', 'small', 'user_free', 'gpt-5-mini', 300, '26', '1795279550143', '[{"role":"user","content":"from another account"}]', '{"format":"text"}', null);
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f6d9-7000-822a-d02463342de3', 'acme', 'user_max', 'gpt-5-mini', 300, '15', '1795279550169', '[{"role":"user","content":"delivered"}]', '{"format":"text"}', '{"url":"http://127.0.0.1:34535/ok","headers":{"x-a":"b"},"payloadJson":"{\"n\":\"12345678901234567890\"}"}');
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f6d9-7001-9b5c-21d2352adbaf', 'acme', 'user_max', 'gpt-5-mini', 300, '17', '1795279550169', '[{"role":"user","content":"undelivered"}]', '{"format":"text"}', '{"url":"http://127.0.0.1:34535/down","headers":{"x-a":"b"},"payloadJson":"{\"n\":\"12345678901234567890\"}"}');
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f737-7000-8733-94a352dc4180', 'acme', 'user_max', 'gpt-5-mini', 300, '20', '1795279550263', '[{"role":"user","content":"held: stalls 1"}]', '{"format":"text"}', null);
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f737-7001-96aa-cf4d0fccb8f8', 'acme', 'user_max', 'gpt-5-mini', 300, '20', '1795279550263', '[{"role":"user","content":"held: stalls 2"}]', '{"format":"text"}', null);
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f737-7002-a4ff-e2bfea06c397', 'acme', 'user_max', 'gpt-5-mini', 300, '13', '1795279550263', '[{"role":"user","content":"waits 1"}]', '{"format":"text"}', null);
insert into jobs (id, account, tier, model, cache_ttl_s, input_tokens, created_at_ms, messages, response_format, callback) values ('01a1feff-f737-7003-91f3-2c315b3b90e0', 'acme', 'user_max', 'gpt-5', 300, '13', '1795279550263', '[{"role":"user","content":"waits 2"}]', '{"format":"text"}', null);
insert into outcomes (id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms) values ('01a1feff-f685-7000-9bb1-81ba3b5a79cc', 'completed', '"echo: Grüße aus der ersten Fassung 🙂"', null, '{"target":"openai/gpt-5-mini","input_tokens":31,"output_tokens":37,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550086,"ms":17.62766499999998,"roles":"native"}]}', 'copied', 1, 0, '1795279550101', '1795279550104');
insert into outcomes (id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms) values ('01a1feff-f6b1-7000-80eb-5b76f919b495', 'failed', null, '{"code":"validation_error","message":"The model did not answer in the form that was asked for, and one repair did not help.","errors":["the answer is not JSON: Unexpected token ''e'', \"echo: Your\"... is not valid JSON"],"raw_text":"echo: Your answer does not have the form that was asked for:\n- the answer is not JSON: Unexpected token ''e'', \"echo: {\"a\":1}\" is not valid JSON\nAnswer again, with the corrected JSON and nothing else."}', '{"target":"openai/gpt-5-mini","input_tokens":415,"output_tokens":211,"calls":2,"cache_hit":false,"repaired":false}', '{"form":"json","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550130,"ms":0.963027000000011,"roles":"native","json_mode":"instruction","instruction":"Answer with one JSON value and nothing else: no explanation before or after it, and no code fence."},{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550131,"ms":0.9430370000000039,"roles":"native","json_mode":"instruction","instruction":"Answer with one JSON value and nothing else: no explanation before or after it, and no code fence."}],"repair":{"raw_text":"echo: {\"a\":1}","errors":["the answer is not JSON: Unexpected token ''e'', \"echo: {\"a\":1}\" is not valid JSON"]}}', 'copied', 1, 0, '1795279550129', '1795279550132');
insert into outcomes (id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms) values ('01a1feff-f6b9-7000-9657-55516b20b762', 'failed', null, '{"code":"model_error","message":"The model server did not give an answer.","upstream_status":400,"upstream_message":"It answers 400."}', '{"target":"openai/gpt-5-mini","input_tokens":0,"output_tokens":0,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"trouble","status":400,"at_ms":1795279550137,"ms":1.224025999999867,"roles":"native"}]}', 'copied', 1, 0, '1795279550137', '1795279550138');
insert into outcomes (id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms) values ('01a1feff-f6bf-7000-a8e2-a0943578a928', 'completed', '"echo: from another account"', null, '{"target":"openai/gpt-5-mini","input_tokens":20,"output_tokens":26,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550143,"ms":11.774780999999848,"roles":"native"}]}', 'copied', 1, 0, '1795279550143', '1795279550155');
insert into outcomes (id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms) values ('01a1feff-f6d9-7000-822a-d02463342de3', 'completed', '"echo: delivered"', null, '{"target":"openai/gpt-5-mini","input_tokens":9,"output_tokens":15,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550178,"ms":3.943804999999884,"roles":"native"}]}', 'copied', 1, 0, '1795279550171', '1795279550182');
insert into outcomes (id, status, content, error, usage, receipt, node, attempt, deaths, claimed_at_ms, settled_at_ms) values ('01a1feff-f6d9-7001-9b5c-21d2352adbaf', 'completed', '"echo: undelivered"', null, '{"target":"openai/gpt-5-mini","input_tokens":11,"output_tokens":17,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550178,"ms":8.132906999999705,"roles":"native"}]}', 'copied', 1, 0, '1795279550171', '1795279550187');
insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin) values ('01a1feff-f737-7000-8733-94a352dc4180', 'acme', false, '0', null, 1, 0, null, null);
insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin) values ('01a1feff-f737-7001-96aa-cf4d0fccb8f8', 'acme', false, '0', null, 1, 0, null, null);
insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin) values ('01a1feff-f737-7002-a4ff-e2bfea06c397', 'acme', false, '0', null, 0, 0, null, null);
insert into open_jobs (id, account, has_callback, turn, node, attempt, deaths, claimed_at_ms, origin) values ('01a1feff-f737-7003-91f3-2c315b3b90e0', 'acme', false, '125', null, 0, 0, null, null);
insert into kept_answers (fingerprint, job_id, kept_at_ms, until_ms) values ('Q8QgnlK5m_eY1zFQ5xfW9F', '01a1feff-f685-7000-9bb1-81ba3b5a79cc', '1795279550104', '1795279850104');
insert into kept_answers (fingerprint, job_id, kept_at_ms, until_ms) values ('A80v6bKRddrybpAK5fFX6T', '01a1feff-f6bf-7000-a8e2-a0943578a928', '1795279550155', '1795279850155');
insert into kept_answers (fingerprint, job_id, kept_at_ms, until_ms) values ('Jy2mB4DD48_CTQ5KlXy79S', '01a1feff-f6d9-7000-822a-d02463342de3', '1795279550182', '1795279850182');
insert into kept_answers (fingerprint, job_id, kept_at_ms, until_ms) values ('uAFFSoqIg081gEZJgQXDxO', '01a1feff-f6d9-7001-9b5c-21d2352adbaf', '1795279550187', '1795279850187');
insert into idempotency (account, key, fingerprint, job_ids, until_ms) values ('acme', 'first-key', 'qkz9SqcgAnp1srUBp0Ld2P', '["01a1feff-f6d9-7000-822a-d02463342de3","01a1feff-f6d9-7001-9b5c-21d2352adbaf"]', '1795365950166');
insert into callbacks (job_id, account, lane, attempt, tries, owed_since_ms, due_at_ms, node, under_way, delivered_at_ms, failed_at_ms, attempts) values ('01a1feff-f6d9-7000-822a-d02463342de3', 'acme', 0, 1, 1, '1795279550182', null, null, false, '1795279550214', null, '{"attempt":1,"atMs":1795279550200,"ms":10,"status":200,"error":null,"answer":"got it"}
');
insert into callbacks (job_id, account, lane, attempt, tries, owed_since_ms, due_at_ms, node, under_way, delivered_at_ms, failed_at_ms, attempts) values ('01a1feff-f6d9-7001-9b5c-21d2352adbaf', 'acme', 1, 1, 1, '1795279550187', '1795372999357', null, false, null, null, '{"attempt":1,"atMs":1795279550201,"ms":15,"status":500,"error":null,"answer":"got it"}
');
create table schema_version (version integer not null);
insert into schema_version values (1);
