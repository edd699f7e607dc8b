-- A database as Parley 0.1.0 left it when it was killed: the first released schema, with data in it. Never edited.
begin;
CREATE TABLE accounts (
  name text primary key,
  tier text not null,
  secret text not null,
  previous_secret text,
  rotated_at_ms integer
) without rowid, strict;
insert into accounts values ('acme', 'user_max', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_8npzto5V9y2uIq1LVwLTI5Qj3qlfpT0IW7ESzItmnlY=', 1795279550068);
insert into accounts values ('small', 'user_free', 'whsec_PVp1II3I3DfYn9FmjnnkBiRwV6KqxqYcheAklLeaHV4=', null, null);
CREATE TABLE keys (
  id text primary key,
  account text not null,
  hash text not null unique,
  created_at_ms integer not null,
  expires_at_ms integer,
  revoked_at_ms integer
) without rowid, strict;
insert into keys values ('key_60746a2bf8464f8d', 'small', 'wCLhi-fnY0xl74gFIKoRiZ4FKKOrACk1r6jtr4rFJx0', 1795279550067, null, null);
insert into keys values ('key_8e415fa3274c2db9', 'acme', 't9v58XzSSwL2Zz8gWiUlq7IhBb-lkjXq4Ca-GWlX6v8', 1795279550065, null, null);
CREATE TABLE jobs (
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
insert into jobs values ('01a1feff-f685-7000-9bb1-81ba3b5a79cc', 1, 'acme', 'user_max', 'gpt-5-mini', 'completed', null, null, 1, 0, 300, 41, 0, 1795279550085, 1795279550101, 1795279550104);
insert into jobs values ('01a1feff-f6b1-7000-80eb-5b76f919b495', 2, 'acme', 'user_max', 'gpt-5-mini', 'failed', null, null, 1, 0, 300, 13, 0, 1795279550129, 1795279550129, 1795279550132);
insert into jobs values ('01a1feff-f6b9-7000-9657-55516b20b762', 3, 'acme', 'user_max', 'gpt-5-mini', 'failed', null, null, 1, 0, 300, 9, 0, 1795279550137, 1795279550137, 1795279550138);
insert into jobs values ('01a1feff-f6bf-7000-a8e2-a0943578a928', 4, 'small', 'user_free', 'gpt-5-mini', 'completed', null, null, 1, 0, 300, 26, 0, 1795279550143, 1795279550143, 1795279550155);
insert into jobs values ('01a1feff-f6d9-7000-822a-d02463342de3', 5, 'acme', 'user_max', 'gpt-5-mini', 'completed', null, null, 1, 0, 300, 15, 1, 1795279550169, 1795279550171, 1795279550182);
insert into jobs values ('01a1feff-f6d9-7001-9b5c-21d2352adbaf', 6, 'acme', 'user_max', 'gpt-5-mini', 'completed', null, null, 1, 0, 300, 17, 1, 1795279550169, 1795279550171, 1795279550187);
insert into jobs values ('01a1feff-f737-7000-8733-94a352dc4180', 7, 'acme', 'user_max', 'gpt-5-mini', 'assigned', null, '488c45377f49e04c', 1, 0, 300, 20, 0, 1795279550263, 1795279550263, null);
insert into jobs values ('01a1feff-f737-7001-96aa-cf4d0fccb8f8', 8, 'acme', 'user_max', 'gpt-5-mini', 'assigned', null, '488c45377f49e04c', 1, 0, 300, 20, 0, 1795279550263, 1795279550263, null);
insert into jobs values ('01a1feff-f737-7002-a4ff-e2bfea06c397', 9, 'acme', 'user_max', 'gpt-5-mini', 'pending', 0, null, 0, 0, 300, 13, 0, 1795279550263, null, null);
insert into jobs values ('01a1feff-f737-7003-91f3-2c315b3b90e0', 10, 'acme', 'user_max', 'gpt-5', 'pending', 125, null, 0, 0, 300, 13, 0, 1795279550263, null, null);
CREATE TABLE requests (
  seq integer primary key,
  messages text not null,
  response_format text not null,
  callback text
) strict;
insert into requests values (1, '[{"role":"user","content":"Grüße aus der ersten Fassung 🙂"}]', '{"format":"text"}', null);
insert into requests values (2, '[{"role":"user","content":"{\"a\":1}"}]', '{"format":"json"}', null);
insert into requests values (3, '[{"role":"user","content":"bad"}]', '{"format":"text"}', null);
insert into requests values (4, '[{"role":"user","content":"from another account"}]', '{"format":"text"}', null);
insert into requests values (5, '[{"role":"user","content":"delivered"}]', '{"format":"text"}', '{"url":"http://127.0.0.1:34535/ok","headers":{"x-a":"b"},"payloadJson":"{\"n\":\"12345678901234567890\"}"}');
insert into requests values (6, '[{"role":"user","content":"undelivered"}]', '{"format":"text"}', '{"url":"http://127.0.0.1:34535/down","headers":{"x-a":"b"},"payloadJson":"{\"n\":\"12345678901234567890\"}"}');
insert into requests values (7, '[{"role":"user","content":"held: stalls 1"}]', '{"format":"text"}', null);
insert into requests values (8, '[{"role":"user","content":"held: stalls 2"}]', '{"format":"text"}', null);
insert into requests values (9, '[{"role":"user","content":"waits 1"}]', '{"format":"text"}', null);
insert into requests values (10, '[{"role":"user","content":"waits 2"}]', '{"format":"text"}', null);
CREATE TABLE outcomes (
  seq integer primary key,
  content text,
  error text,
  usage text not null,
  receipt text not null
) strict;
insert into outcomes values (1, '"echo: Grüße aus der ersten Fassung 🙂"', null, '{"target":"openai/gpt-5-mini","input_tokens":31,"output_tokens":37,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550086,"ms":17.62766499999998,"roles":"native"}]}');
insert into outcomes values (2, null, '{"code":"validation_error","message":"The model did not answer in the form that was asked for, and one repair did not help.","errors":["the answer is not JSON: Unexpected token ''e'', \"echo: Your\"... is not valid JSON"],"raw_text":"echo: Your answer does not have the form that was asked for:\n- the answer is not JSON: Unexpected token ''e'', \"echo: {\"a\":1}\" is not valid JSON\nAnswer again, with the corrected JSON and nothing else."}', '{"target":"openai/gpt-5-mini","input_tokens":415,"output_tokens":211,"calls":2,"cache_hit":false,"repaired":false}', '{"form":"json","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550130,"ms":0.963027000000011,"roles":"native","json_mode":"instruction","instruction":"Answer with one JSON value and nothing else: no explanation before or after it, and no code fence."},{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550131,"ms":0.9430370000000039,"roles":"native","json_mode":"instruction","instruction":"Answer with one JSON value and nothing else: no explanation before or after it, and no code fence."}],"repair":{"raw_text":"echo: {\"a\":1}","errors":["the answer is not JSON: Unexpected token ''e'', \"echo: {\"a\":1}\" is not valid JSON"]}}');
insert into outcomes values (3, null, '{"code":"model_error","message":"The model server did not give an answer.","upstream_status":400,"upstream_message":"It answers 400."}', '{"target":"openai/gpt-5-mini","input_tokens":0,"output_tokens":0,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"trouble","status":400,"at_ms":1795279550137,"ms":1.224025999999867,"roles":"native"}]}');
insert into outcomes values (4, '"echo: from another account"', null, '{"target":"openai/gpt-5-mini","input_tokens":20,"output_tokens":26,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550143,"ms":11.774780999999848,"roles":"native"}]}');
insert into outcomes values (5, '"echo: delivered"', null, '{"target":"openai/gpt-5-mini","input_tokens":9,"output_tokens":15,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550178,"ms":3.943804999999884,"roles":"native"}]}');
insert into outcomes values (6, '"echo: undelivered"', null, '{"target":"openai/gpt-5-mini","input_tokens":11,"output_tokens":17,"calls":1,"cache_hit":false,"repaired":false}', '{"form":"text","calls":[{"target":"openai/gpt-5-mini","kind":"answer","status":200,"at_ms":1795279550178,"ms":8.132906999999705,"roles":"native"}]}');
CREATE TABLE kept_answers (
  seq integer primary key,
  fingerprint text not null,
  until_ms integer not null
) strict;
insert into kept_answers values (1, 'Q8QgnlK5m_eY1zFQ5xfW9F', 1795279850104);
insert into kept_answers values (4, 'A80v6bKRddrybpAK5fFX6T', 1795279850155);
insert into kept_answers values (5, 'Jy2mB4DD48_CTQ5KlXy79S', 1795279850182);
insert into kept_answers values (6, 'uAFFSoqIg081gEZJgQXDxO', 1795279850187);
CREATE TABLE idempotency (
  account text not null,
  key text not null,
  fingerprint text not null,
  job_ids text not null,
  until_ms integer not null,
  primary key (account, key)
) without rowid, strict;
insert into idempotency values ('acme', 'first-key', 'qkz9SqcgAnp1srUBp0Ld2P', '["01a1feff-f6d9-7000-822a-d02463342de3","01a1feff-f6d9-7001-9b5c-21d2352adbaf"]', 1795365950166);
CREATE TABLE callbacks (
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
insert into callbacks values (5, '01a1feff-f6d9-7000-822a-d02463342de3', 'acme', 0, 1, 1, 1795279550182, null, null, 0, 1795279550214, null, '{"attempt":1,"atMs":1795279550200,"ms":10,"status":200,"error":null,"answer":"got it"}
');
insert into callbacks values (6, '01a1feff-f6d9-7001-9b5c-21d2352adbaf', 'acme', 1, 1, 1, 1795279550187, 1795372999357, null, 0, null, null, '{"attempt":1,"atMs":1795279550201,"ms":15,"status":500,"error":null,"answer":"got it"}
');
CREATE TABLE line (turn integer not null) strict;
insert into line values (0);
CREATE TABLE turns (account text primary key, next_turn integer not null) without rowid, strict;
insert into turns values ('acme', 250);
CREATE TABLE probe (at_ms integer not null) strict;
insert into probe values (0);
CREATE INDEX keys_by_age on keys (created_at_ms, id);
CREATE INDEX keys_by_account on keys (account, created_at_ms, id);
CREATE INDEX jobs_in_line on jobs (turn, id) where turn is not null;
CREATE INDEX jobs_by_age on jobs (id) where turn is not null;
CREATE INDEX jobs_that_died on jobs (turn, id) where turn is not null and deaths > 0;
CREATE INDEX jobs_returned on jobs (id) where turn is not null and attempt > 0;
CREATE INDEX jobs_held on jobs (node) where node is not null;
CREATE INDEX idempotency_by_end on idempotency (until_ms);
CREATE INDEX callbacks_due on callbacks (lane, due_at_ms) where due_at_ms is not null;
CREATE INDEX callbacks_failed on callbacks (seq) where failed_at_ms is not null;
pragma user_version = 1;
commit;
