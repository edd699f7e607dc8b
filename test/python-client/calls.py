# Calls a server as python-client.test.ts arranges it, and fails where the result differs from what is expected.
import os
import time

import parley_client
from parley_client import (
    BatchError, ConnectionFailed, JobFailed, Parley, ParleyError, ResponseError, WaitTimeout, WebhookVerificationError, completed,
    verify_webhook,
)


def text_job(content, **fields):
    message = {"role": "user", "content": content}
    return {"model": "gpt-5-mini", "response_format": {"format": "text"}, "messages": [message], **fields}


def raises(kind, call, **fields):
    try:
        call()
    except kind as error:
        for name, value in fields.items():
            assert getattr(error, name) == value, (name, getattr(error, name))
        return error
    raise AssertionError(f"no {kind.__name__}")


parley = Parley()
assert parley.me()["tier"] == "user_max"

job = parley.create(text_job("Hello from Python"))
assert job["status"] == "completed" and "Hello from Python" in job["result"]["response_content"], job
assert parley.retrieve(job["job_id"])["status"] == "completed"
again = [parley.create(text_job("Once"), idempotency_key="once")["job_id"] for _ in range(2)]
assert again[0] == again[1]
assert parley.create_and_wait(text_job("Wait for it"))["status"] == "completed"
failed = raises(JobFailed, lambda: parley.create_and_wait(text_job("[[fail model_error]]")), code="model_error")
assert failed.job["status"] == "failed"

# More than a hundred IDs, and several batches.
ids = parley.create_batch([text_job(f"Job {n}") for n in range(130)], idempotency_key="batch-1")
assert len(set(ids)) == 130
assert parley.create_batch([text_job(f"Job {n}") for n in range(130)], idempotency_key="batch-1") == ids
ended = parley.wait_all(ids)
assert [one["job_id"] for one in ended] == ids
assert all(f"Job {n}" in completed(one)["result"]["response_content"] for n, one in enumerate(ended))
assert sorted(one["job_id"] for one in parley.wait_each(ids)) == sorted(ids)
assert parley.create_batch([]) == []
assert len(list(parley.list(status="completed", limit=50))) >= 132
assert list(parley.list(metadata={"customer": "nobody"})) == []
bad = lambda: parley.create_batch([text_job("fine"), {"model": "nothing"}], batch_size=1)
assert len(raises(BatchError, bad).job_ids) == 1

[slow] = parley.create_batch([text_job("[[delay 600s]] slow")])
raises(WaitTimeout, lambda: parley.wait(slow, timeout=0.2), job_ids=[slow])
# After a create that took too long, the same call with the key of the error continues.
waiting = parley.with_options()
waiting.create = lambda job, key: {"status": "timeout", "job_id": slow}
raises(WaitTimeout, lambda: waiting.create_and_wait(text_job("slow"), "mine", timeout=0.2), idempotency_key="mine")
# A timeout also ends a wait whose server does not respond.
unreachable = parley.with_options(base_url="http://127.0.0.1:1")
since = time.monotonic()
raises(WaitTimeout, lambda: unreachable.wait(slow, timeout=0.2), job_ids=[slow])
assert time.monotonic() - since < 3
# However often a wait was rejected, it goes on.
parley_client.pause(2000, None, deadline=0)
# A job that the first request does not ask for does not wait until the jobs of that request have ended.
parley_client.MAX_IDS, parley_client.PARTIAL_WAIT_S = 1, 0.2
since = time.monotonic()
assert next(parley.wait_each([slow, ids[0]]))["job_id"] == ids[0]
assert time.monotonic() - since < 20
parley_client.MAX_IDS = 100
assert parley.cancel(slow)["error"]["code"] == "cancelled"
assert parley.wait(slow)["status"] == "failed"
assert parley.delete(slow)["deleted"] is True
raises(ResponseError, lambda: parley.retrieve(slow), status=404)
raises(ResponseError, lambda: parley.wait(slow), status=404)
# Only a 404 of Parley means that an earlier try has deleted the job, not the page of a proxy.
behind_proxy = parley.with_options()
answers = [ResponseError("busy", 503), ResponseError("no message from Parley", 404)]
behind_proxy._once = lambda *_: (_ for _ in ()).throw(answers.pop(0))
raises(ResponseError, lambda: behind_proxy.delete(slow), status=404)
raises(ResponseError, lambda: parley.cancel(job["job_id"]), status=409)
assert raises(ResponseError, lambda: parley.create({"model": "x"}), status=400).details
raises(ResponseError, lambda: parley.with_options(api_key="prl_wrong").me(), status=401)
raises(ParleyError, lambda: Parley(api_key="prl_\n"))
raises(ConnectionFailed, lambda: parley.with_options(base_url="http://127.0.0.1:1", max_retries=0).me())

# A proxy that fails twice before each response: once before the server gets the request, once after.
faulty = parley.with_options(base_url=os.environ["FAULTY_URL"])
assert faulty.max_retries == parley.max_retries
assert faulty.create(text_job("Through a faulty proxy"))["status"] == "completed"
one_less = faulty.with_options(max_retries=1, headers={"x-test": "kept"})
raises(ParleyError, one_less.me)
assert faulty.base_url == one_less.base_url

# Callbacks: what the server signed.
secret = os.environ["SECRET"]
body = os.environ["BODY"].encode()
headers = {name: os.environ[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
assert verify_webhook(body, headers, secret)["job_id"] == headers["webhook-id"]
other = "whsec_" + "A" * 40
assert verify_webhook(body, {name.title(): value for name, value in headers.items()}, [other, secret])
for wrong in (
    lambda: verify_webhook(body + b" ", headers, secret),
    lambda: verify_webhook(body, headers, other),
    lambda: verify_webhook(body, {}, secret),
    lambda: verify_webhook(body, {**headers, "webhook-timestamp": str(int(time.time()) - 301)}, secret),
    lambda: verify_webhook(body, {**headers, "webhook-signature": "v2,x"}, secret),
    # aiohttp decodes bytes that are not UTF-8 like this.
    lambda: verify_webhook(body, {**headers, "webhook-signature": "v1,\udcff"}, secret),
    lambda: verify_webhook(body, {**headers, "webhook-id": "\udcff"}, secret),
):
    raises(WebhookVerificationError, wrong)
raises(ParleyError, lambda: verify_webhook(body, headers, "whsec_short"))
raises(ParleyError, lambda: verify_webhook(body, headers, "whsec_schlüssel"))
print("done")
