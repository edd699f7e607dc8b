"""
The Python client of Parley, a server that runs AI message jobs. This file is all of it: copy it next to your program. It needs
Python 3.9 or newer and nothing else.

    from parley_client import Parley

    parley = Parley()  # PARLEY_URL and PARLEY_API_KEY, or Parley(base_url="https://parley.example.com", api_key="prl_…")
    job = parley.create_and_wait({
        "model": "gpt-auto",
        "response_format": {"format": "text"},
        "messages": [{"role": "user", "content": "Hello, Parley!"}],
    })
    print(job["result"]["response_content"])

Jobs are dictionaries with the field names of the HTTP API. Every duration is in seconds. Threads can share a client.
"""

import base64
import email.utils
import hmac
import http.client
import json
import os
import random
import re
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request

__all__ = [
    "BatchError", "ConnectionFailed", "JobFailed", "Parley", "ParleyError", "ResponseError", "WaitTimeout",
    "WebhookVerificationError", "completed", "verify_webhook",
]

# The longest time for which the server holds a read. Most proxies allow it.
WAIT_S = 50
# The same while jobs that the read does not ask for could end.
PARTIAL_WAIT_S = 5
MAX_IDS = 100
# If Retry-After is longer, the call fails instead of waiting.
MAX_RETRY_AFTER_S = 120
# A wait continues through outages of this length.
MAX_OUTAGE_S = 300
# The server's default for the timeout of a job.
DEFAULT_TIMEOUT_S = 90
OPTIONS = ("base_url", "api_key", "max_retries", "request_timeout", "headers")


class ParleyError(Exception):
    """All errors of this client. With `idempotency_key`, the create may be repeated: it creates no job twice."""

    def __init__(self, message, retry_after=None, idempotency_key=None):
        super().__init__(message)
        self.retry_after = retry_after
        self.idempotency_key = idempotency_key


class ConnectionFailed(ParleyError):
    """The server was not reached, did not respond in time, or the connection broke."""


class ResponseError(ParleyError):
    """The server responded with an error. `details` names the field or rule, `request_id` is in the server's log."""

    def __init__(self, message, status, details=None, request_id=None, **fields):
        super().__init__(message, **fields)
        self.status = status
        self.details = details
        self.request_id = request_id


class WaitTimeout(ParleyError):
    """The jobs with the IDs `job_ids` have not ended in time. They continue on the server."""

    def __init__(self, message, job_ids, **fields):
        super().__init__(message, **fields)
        self.job_ids = job_ids


class JobFailed(ParleyError):
    """The job failed: `code` is the reason, `job` the whole job."""

    def __init__(self, job):
        super().__init__(job["error"]["message"])
        self.job = job
        self.code = job["error"]["code"]


class BatchError(ParleyError):
    """create_batch failed after the jobs `job_ids` were created. The same call with `idempotency_key` continues from there."""

    def __init__(self, job_ids, idempotency_key, cause):
        super().__init__(f"create_batch failed after {len(job_ids)} jobs: {cause}", idempotency_key=idempotency_key)
        self.job_ids = job_ids


class WebhookVerificationError(ParleyError):
    """The callback cannot be trusted. Respond with 401."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Following a redirect could send the key to another server."""

    def redirect_request(self, *args):
        return None


class Parley:
    def __init__(self, base_url=None, api_key=None, max_retries=4, request_timeout=30, headers=None):
        """
        :param max_retries: how often a call is retried after a temporary failure
        :param request_timeout: of each try; for creates and waits, the time that the server holds them is added
        :param headers: sent with each request
        """
        self.base_url = (base_url or os.environ.get("PARLEY_URL") or "http://127.0.0.1:8080").rstrip("/")
        self.api_key = api_key or os.environ.get("PARLEY_API_KEY") or ""
        if not self.base_url.startswith(("http://", "https://")):
            raise ParleyError("base_url must be an http or https URL")
        # Without this check, http.client would raise an error that contains the key.
        if not re.fullmatch(r"[\x21-\x7e]+", self.api_key):
            raise ParleyError("no valid API key is set; pass api_key, or set PARLEY_API_KEY")
        self.max_retries = max_retries
        self.request_timeout = request_timeout
        self.headers = dict(headers or {})
        self._opener = urllib.request.build_opener(NoRedirects)

    def with_options(self, **options):
        """Returns a client with other options, for example `parley.with_options(max_retries=0).create(job)`."""
        return Parley(**{**{name: getattr(self, name) for name in OPTIONS}, **options})

    def me(self):
        """Returns tier, models and limits of the key, and what remains of them."""
        return self._call("GET", "/api/v1/me")

    def create(self, job, idempotency_key=None):
        """
        Creates a job and waits up to its `timeout`. Returns the job, `completed` or `failed`, or its ID and the status
        `timeout`; then it continues on the server. A key of your own makes the create safe across restarts of your program.
        """
        hold_s = job.get("timeout", DEFAULT_TIMEOUT_S)
        return self._call("POST", "/api/v1/messages", job, key=idempotency_key or new_key(), hold_s=hold_s)

    def create_and_wait(self, job, idempotency_key=None, timeout=None):
        """
        Creates a job and returns it once it is completed, however long that takes. Raises JobFailed. `timeout` limits how long it
        waits after the job's own `timeout`, for which the server holds the create.
        """
        key = idempotency_key or new_key()
        created = self.create(job, key)
        if created["status"] == "timeout":
            try:
                created = self.wait(created["job_id"], timeout)
            except ParleyError as error:
                error.idempotency_key = key
                raise
        return completed(created)

    def create_batch(self, jobs, idempotency_key=None, batch_size=None):
        """Creates any number of jobs, in batches as large as the tier allows. Returns the IDs in the order of the jobs."""
        key = idempotency_key or new_key()
        texts = [json.dumps(job) for job in jobs]
        ids = []
        try:
            limits = self.me()["limits"] if texts else {}
            while len(ids) < len(texts):
                batch = next_batch(texts, len(ids), limits, batch_size)
                # The key depends only on the first job: if the batches are cut differently, the server rejects them.
                body = f"[{','.join(batch)}]"
                ids += self._call("POST", "/api/v1/messages/batches", body, key=f"{key}.{len(ids)}")["job_ids"]
        except ParleyError as error:
            if not ids:
                error.idempotency_key = key
                raise
            raise BatchError(ids, key, error) from error
        return ids

    def retrieve(self, job_id):
        """Returns the current state of a job."""
        return self._call("GET", path_of(job_id))

    def wait(self, job_id, timeout=None):
        """Returns the job once it is completed or has failed. Use completed(job) to get the answer or raise."""
        return self.wait_all([job_id], timeout)[0]

    def wait_all(self, job_ids, timeout=None):
        """Returns the jobs in the order of the IDs, once all have ended."""
        wanted = [job_id.lower() for job_id in job_ids]
        ended = {job["job_id"]: job for job in self.wait_each(wanted, timeout, wait_for="all")}
        return [ended[job_id] for job_id in wanted]

    def wait_each(self, job_ids, timeout=None, wait_for="any"):
        """Yields each job soon after it has ended. Raises WaitTimeout, and ResponseError (404) for an unknown job."""
        is_open = list(dict.fromkeys(job_id.lower() for job_id in job_ids))
        deadline = None if timeout is None else time.monotonic() + timeout
        failing_since = None
        failures = 0
        # The loop below retries, because it knows the deadline.
        once = self.with_options(max_retries=0)
        while is_open:
            left = WAIT_S if deadline is None else deadline - time.monotonic()
            if left < 0:
                raise WaitTimeout(f"{len(is_open)} jobs have not ended within {timeout} s", is_open)
            # The others follow in the next request: what is asked first goes to the end of the list.
            asked = is_open[:MAX_IDS]
            is_partial = wait_for == "any" and len(is_open) > MAX_IDS
            hold_s = round(min(PARTIAL_WAIT_S if is_partial else WAIT_S, left), 3)
            holding = {"wait": hold_s, "wait_for": wait_for} if hold_s > 0 else {}
            query = urllib.parse.urlencode({"ids": ",".join(asked), **holding})
            asked_at = time.monotonic()
            try:
                read = once._call("GET", f"/api/v1/messages?{query}", hold_s=hold_s)
                failures = 0
            except ParleyError as error:
                now = time.monotonic()
                # A rate limit is not an outage.
                is_limit = isinstance(error, ResponseError) and error.status == 429
                failing_since = now if failures == 0 or is_limit else failing_since
                if not is_temporary(error) or now - failing_since > MAX_OUTAGE_S:
                    raise
                failures += 1
                pause(failures, error.retry_after, deadline)
                continue
            if read["not_found"]:
                missing = ", ".join(read["not_found"])
                raise ResponseError(f"these jobs do not exist or have expired: {missing}", 404)
            ended = [job for job in read["jobs"] if job["status"] in ("completed", "failed")]
            done = {job["job_id"] for job in ended}
            is_open = is_open[MAX_IDS:] + [job_id for job_id in asked if job_id not in done]
            yield from ended
            # The server does not hold a read while it stops, or if too many are waiting.
            if not ended and time.monotonic() - asked_at < min(1, hold_s):
                pause(1, None, deadline)

    def list(self, **filters):
        """Yields the account's jobs, newest first, without their contents. Filters are those of the API, such as status and metadata."""
        for key, value in filters.pop("metadata", {}).items():
            filters[f"metadata[{key}]"] = value
        while True:
            page = self._call("GET", f"/api/v1/messages?{urllib.parse.urlencode(filters)}")
            yield from page["jobs"]
            if page["next"] is None:
                return
            filters["after"] = page["next"]

    def cancel(self, job_id):
        """Cancels a job that has not ended, and returns it. ResponseError with 409 if it has ended."""
        return self._call("POST", f"{path_of(job_id)}/cancel", is_idempotent=True)

    def delete(self, job_id, drop_callback=False):
        """Deletes a job that has ended, with its callback if `drop_callback` is true."""
        query = "?drop_callback=true" if drop_callback else ""
        return self._call("DELETE", path_of(job_id) + query, is_idempotent=True)

    def _call(self, method, path, body=None, key=None, hold_s=0, is_idempotent=False):
        """Returns the `data` of the response. Temporary failures are retried if a repetition changes nothing."""
        # The same bytes for each try: the server requires that of an Idempotency-Key.
        data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        is_safe = method == "GET" or key is not None or is_idempotent
        attempt = 1
        while True:
            try:
                return self._once(method, path, data, key, hold_s)
            except ParleyError as error:
                # The 404 of Parley has details, unlike that of a proxy.
                if method == "DELETE" and attempt > 1 and getattr(error, "status", None) == 404 and error.details:
                    return {"job_id": path.split("/")[-1].split("?")[0], "deleted": True}
                is_long = (error.retry_after or 0) > MAX_RETRY_AFTER_S
                if attempt > self.max_retries or not is_safe or is_long or not is_temporary(error):
                    raise
                pause(attempt, error.retry_after)
            attempt += 1

    def _once(self, method, path, data, key, hold_s):
        headers = {"user-agent": "parley-python/0.4.0", **self.headers, "accept": "application/json", "x-api-key": self.api_key}
        if data is not None:
            headers["content-type"] = "application/json"
        if key is not None:
            headers["idempotency-key"] = key
        request = urllib.request.Request(self.base_url + path, data=data, method=method, headers=headers)
        try:
            with self._opener.open(request, timeout=self.request_timeout + hold_s) as response:
                answer = parsed(response.read())
        except urllib.error.HTTPError as error:
            raise self._error_of(error, key) from None
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionFailed(f"no response from {self.base_url}: {error}", idempotency_key=key) from error
        if answer.get("success") is not True or "data" not in answer:
            raise ResponseError(f"the response of {self.base_url} is not from a Parley server", 200)
        return answer["data"]

    @staticmethod
    def _error_of(error, key):
        try:
            answer = parsed(error.read())
        except (OSError, http.client.HTTPException):
            answer = {}
        message, details = answer.get("message"), answer.get("details")
        text = f"{message} {details}" if message and details else message
        return ResponseError(
            text or f"the server responded with HTTP {error.code} and without a message from Parley",
            error.code,
            details=details,
            request_id=error.headers.get("x-request-id"),
            retry_after=seconds_of(error.headers.get("retry-after")),
            idempotency_key=key,
        )


def completed(job):
    """Returns the job if it is completed. Raises JobFailed."""
    if job["status"] == "completed":
        return job
    raise JobFailed(job)


def verify_webhook(body, headers, secret, tolerance=300):
    """
    Returns the callback if it comes from the server and is recent. The same callback may arrive twice: use its job_id to detect that.

    :param body: the unchanged bytes of the request
    :param headers: the headers of the request, with any case of names
    :param secret: the account's secret (`whsec_…`), or several while it is being rotated
    """
    keys = [key_bytes(one) for one in ([secret] if isinstance(secret, str) else secret)]
    given = {name.lower(): value for name, value in headers.items()}
    webhook_id, timestamp, signatures = (
        given.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
    )
    if not webhook_id or not signatures or not re.fullmatch(r"[0-9]{1,15}", timestamp):
        raise WebhookVerificationError("the headers webhook-id, webhook-timestamp and webhook-signature are missing or not valid")
    if abs(time.time() - int(timestamp)) > tolerance:
        raise WebhookVerificationError(f"the timestamp differs by more than {tolerance} s: a replay, or a clock is wrong")
    # Some frameworks decode headers to text that has no UTF-8.
    signed = f"{webhook_id}.{timestamp}.".encode(errors="replace") + body
    expected = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    # All signatures are compared, so that the time does not reveal which one matched.
    matches = [hmac.compare_digest(one, other.encode(errors="replace")) for one in expected for other in signatures.split(" ")]
    if not any(matches):
        raise WebhookVerificationError("the signature does not match this secret and this body; pass the body unchanged")
    callback = parsed(body)
    if not isinstance(callback.get("job_id"), str):
        raise WebhookVerificationError("the signature is valid, but the body is not a callback")
    return callback


def key_bytes(secret):
    try:
        key = base64.b64decode(secret[6:] if secret.startswith("whsec_") else secret, validate=True)
    except ValueError:
        key = b""
    if len(key) < 24:
        raise ParleyError("the webhook secret must be whsec_ followed by base64, as Parley prints it")
    return key


def next_batch(texts, start, limits, batch_size):
    """As many jobs as fit, and at least one: the server's error explains what is wrong with a job that is too large."""
    size = 2
    batch = []
    for text in texts[start : start + (batch_size or limits["max_batch_jobs"])]:
        size += len(text.encode()) + 1
        if batch and size > limits["batch_body_bytes"]:
            break
        batch.append(text)
    return batch


def new_key():
    """Begins with the time, as a UUIDv7 does, so that keys are next to each other in the server's index."""
    return f"{int(time.time() * 1000):012x}{secrets.token_hex(10)}"


def path_of(job_id):
    return f"/api/v1/messages/{urllib.parse.quote(job_id, safe='')}"


def is_temporary(error):
    return isinstance(error, ConnectionFailed) or (
        isinstance(error, ResponseError) and (error.status in (408, 429) or error.status >= 500)
    )


def pause(failures, retry_after, deadline=None):
    """Doubles with each failure, with jitter, and is never shorter than Retry-After, nor longer than the time that is left."""
    seconds = max(0.5 * 2 ** min(failures - 1, 4) * (1 - random.random() / 2), retry_after or 0)
    left = seconds if deadline is None else max(0, deadline - time.monotonic())
    time.sleep(min(seconds, left))


def seconds_of(retry_after):
    """A number of seconds, or a date."""
    if retry_after is None or retry_after.isdecimal():
        return None if retry_after is None else int(retry_after)
    try:
        return max(0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def parsed(text):
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
