"""
Creates jobs, waits for one, cancels one, and verifies the callback of a third, using only Python's standard library (3.9 or newer).

In a clone of Parley, allow callbacks to this machine and start the server, which prints an API key when it starts for the first time:

    echo '{ "callbacks": { "allow_networks": ["127.0.0.0/8"] } }' > parley.config.json
    npm ci && npm start

In a second terminal, in the same folder:

    export PARLEY_API_KEY=prl_…                     # the key that the server printed
    export PARLEY_CALLBACK_SECRET=$(npm run -s parley -- accounts secret default)
    python3 examples/parley.py

This file is self-contained, so you can copy it anywhere. If the server is on another machine, set PARLEY_URL, and CALLBACK_URL to an address of
this program that the server can reach.
"""

import base64
import hmac
import json
import os
import queue
import threading
import time
import urllib.error
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

URL = os.environ.get("PARLEY_URL", "http://127.0.0.1:8080").rstrip("/") + "/api/v1/messages"
KEY = os.environ["PARLEY_API_KEY"]
SECRET = base64.b64decode(os.environ["PARLEY_CALLBACK_SECRET"].removeprefix("whsec_"))
if not SECRET:
    raise SystemExit("PARLEY_CALLBACK_SECRET is empty")

TOLERANCE_S = 300
# The server holds a read for this long. The connection's timeout must be a little longer.
WAIT_S = 60
TRIES = 5


class Rejected(SystemExit):
    """Ends the program with the response, unless it is caught."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def call(method, path="", body=None, idempotency_key=None):
    """
    Returns the `data` of the response. Temporary failures are retried, respecting Retry-After. That is safe: repeated reads and cancels
    change nothing, and a create with the same idempotency key returns the first job.
    """
    headers = {"x-api-key": KEY}
    if idempotency_key:
        headers["idempotency-key"] = idempotency_key
    request = urllib.request.Request(URL + path, method=method, headers=headers)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("content-type", "application/json")
    for attempt in range(1, TRIES + 1):
        pause_s = 2**attempt
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S + 10) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            message = error.read().decode()
            if attempt == TRIES or error.code not in (429, 502, 503, 504):
                raise Rejected(f"{method} {request.full_url}: {error.code} {message}", error.code) from None
            pause_s = int(error.headers.get("retry-after", pause_s))
        except OSError:
            if attempt == TRIES:
                raise
        time.sleep(pause_s)


def text_job(content, **fields):
    message = {"role": "user", "content": content}
    return {"model": "gpt-5-mini", "response_format": {"format": "text"}, "messages": [message], **fields}


def create_batch(jobs):
    """Returns the IDs of the jobs, in the same order. Store the key with your work if a restarted program must not create the jobs twice."""
    return call("POST", "/batches", jobs, idempotency_key=str(uuid.uuid4()))["job_ids"]


def wait(job_id):
    """Returns the job once it has ended. Each read returns when the job ends, or after WAIT_S."""
    while True:
        job = call("GET", f"/{job_id}?wait={WAIT_S}")
        if job["status"] in ("completed", "failed"):
            return job


def cancel(job_id):
    """Returns the finished job, which may have had its answer before it could be cancelled."""
    try:
        return call("POST", f"/{job_id}/cancel")
    except Rejected as rejected:
        if rejected.status != 409:
            raise
        return call("GET", f"/{job_id}")


def verify(headers, body):
    """Returns whether the request was signed with the secret within the last 5 minutes. `body` must be the unmodified bytes."""
    webhook_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    signatures = headers.get("webhook-signature", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > TOLERANCE_S:
        return False
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(SECRET, signed, "sha256"))
    return any(hmac.compare_digest(expected, given.encode()) for given in signatures.split(" "))


received = queue.Queue()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        is_genuine = verify(self.headers, body)
        # Respond first and work afterwards. The same callback can arrive more than once: recognize it by webhook-id, the job ID.
        self.send_response(204 if is_genuine else 401)
        self.end_headers()
        if is_genuine:
            received.put(json.loads(body))

    def log_message(self, *args):
        pass


def main():
    receiver = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    callback_url = os.environ.get("CALLBACK_URL", f"http://127.0.0.1:{receiver.server_port}/")
    print("receiving callbacks at", callback_url, flush=True)

    callback = {"callback_url": callback_url, "callback_payload": {"order": 7}}
    first, slow, with_callback = create_batch([
        text_job("Name a river."),
        # The built-in simulator follows this instruction, and a model does not know it. The unique words keep the answer out of the cache.
        text_job(f"[[delay 60s]] Take your time, {uuid.uuid4()}."),
        text_job("Name another river.", callback=callback),
    ])

    job = wait(first)
    print("waited:", job["status"], job["result"] and job["result"]["response_content"], flush=True)

    job = cancel(slow)
    if job["error"]:
        print("cancelled:", job["status"], job["error"]["code"], flush=True)
    else:
        print("not cancelled:", job["status"], flush=True)

    called_back = received.get(timeout=WAIT_S)
    while called_back["job_id"] != with_callback:  # a callback of an earlier run
        called_back = received.get(timeout=WAIT_S)
    print("verified callback:", called_back["status"], called_back["callback_payload"], flush=True)


main()
