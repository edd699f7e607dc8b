#!/bin/sh
# Creates jobs, waits for one, cancels one, and receives and verifies a callback. It needs only curl and openssl.
#
# In a clone of Parley, start the server, which prints an API key when it starts for the first time:
#
#     npm ci && npm start
#
# In a second terminal, in the same folder:
#
#     export PARLEY_API_KEY=prl_…                     # the key that the server printed
#     sh examples/parley.sh
#
# Callbacks: `sh parley.sh receive` reads one HTTP request from standard input and responds to it. To receive callbacks, run it from a program that
# starts it for each connection: inetd, systemd (Accept=yes) or socat. Allow callbacks to this machine before you start the server:
#
#     echo '{ "callbacks": { "allow_networks": ["127.0.0.0/8"] } }' > parley.config.json
#
# and in a third terminal run one of these, the first on Linux with systemd, the second where socat is installed:
#
#     export PARLEY_CALLBACK_SECRET=$(npm run -s parley -- accounts secret default)
#     systemd-socket-activate --accept --inetd -l 127.0.0.1:9000 -E PARLEY_CALLBACK_SECRET -E PATH sh examples/parley.sh receive
#     socat TCP-LISTEN:9000,bind=127.0.0.1,reuseaddr,fork EXEC:'sh examples/parley.sh receive'
#
# Then run this script again, with callbacks for its jobs:
#
#     PARLEY_CALLBACK_URL=http://127.0.0.1:9000/ sh examples/parley.sh
#
# This file is self-contained, so you can copy it anywhere. Set PARLEY_URL if the server is on another machine.
set -euf

messages=${PARLEY_URL:-http://127.0.0.1:8080}/api/v1/messages
tolerance_s=300
max_body_bytes=10485760

# Prints the response. Temporary failures (429, 503, no connection) are retried, respecting Retry-After; other failures end the script.
# The key is not passed as an argument, because other users of this machine can see arguments.
call() {
  response=$(printf 'header = "x-api-key: %s"\n' "$PARLEY_API_KEY" |
    curl --config - --silent --show-error --fail-with-body --retry 4 --retry-connrefused --max-time 70 "$@") || {
    echo "$response" >&2
    exit 1
  }
  printf '%s\n' "$response"
}

# field NAME: prints the first value of this name in the JSON on standard input. The value must be a string without quotes. Use jq for more.
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

# create CONTENT: prints the ID of a new job. The idempotency key makes it safe to retry: the server returns the first job again.
# The content must not contain characters that JSON escapes. jq can escape any content: jq -n --arg content "$1" '{ role: "user", content: $content }'
create() {
  callback=${PARLEY_CALLBACK_URL:+", \"callback\": { \"callback_url\": \"$PARLEY_CALLBACK_URL\", \"callback_payload\": { \"order\": 7 } }"}
  created=$(call "$messages/batches" -H 'content-type: application/json' -H "idempotency-key: $(openssl rand -hex 16)" --data '[{
    "model": "gpt-5-mini", "response_format": { "format": "text" },
    "messages": [{ "role": "user", "content": "'"$1"'" }]'"$callback"' }]') || exit 1
  printf %s "$created" | grep -o '[0-9a-f]\{8\}-[0-9a-f-]\{27\}' | head -n 1
}

# wait_for ID: prints the job once it has ended. Each read returns when the job ends, or after 60 s.
wait_for() {
  while :; do
    job=$(call "$messages/$1?wait=60") || exit 1
    case $(printf %s "$job" | field status) in completed | failed) break ;; esac
  done
  printf '%s\n' "$job"
}

demo() {
  : "${PARLEY_API_KEY:?set it to the key that the server printed}"
  id=$(create 'Name a river.')
  echo "created $id"
  job=$(wait_for "$id")
  echo "waited: $(printf %s "$job" | field status)"
  # The built-in simulator follows the instruction in the content. The unique words keep the answer out of the cache.
  slow=$(create "[[delay 60s]] Take your time, $(openssl rand -hex 4).")
  echo "created $slow"
  job=$(call -X POST "$messages/$slow/cancel")
  echo "cancelled: $(printf %s "$job" | field status), $(printf %s "$job" | field code)"
}

# verify BODY_FILE ID TIMESTAMP SIGNATURES: succeeds if the request was signed with the secret, within the last 5 minutes.
# The secret appears on the command line of openssl for a moment: do not run a receiver on a machine that you share.
verify() {
  key=$(printf %s "${PARLEY_CALLBACK_SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
  case $3 in '' | *[!0-9]* | ????????????*) return 1 ;; esac
  age_s=$(($(date +%s) - $3))
  [ "$age_s" -le "$tolerance_s" ] && [ "$age_s" -ge "-$tolerance_s" ] || return 1
  expected=$({ printf '%s.%s.' "$2" "$3"; cat "$1"; } |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
  for signature in $4; do
    [ "$signature" != "v1,$expected" ] || return 0
  done
  return 1
}

respond() {
  printf 'HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n' "$1"
}

# Reads one request from standard input and writes the response to standard output. Messages go to standard error.
receive() {
  : "${PARLEY_CALLBACK_SECRET:?set it to what "parley accounts secret NAME" prints}"
  id='' timestamp='' signatures='' bytes=0
  carriage_return=$(printf '\r')
  read -r request_line
  while IFS= read -r line; do
    line=${line%"$carriage_return"}
    [ -n "$line" ] || break
    value=${line#*:}
    value=${value# }
    case $(printf %s "${line%%:*}" | tr '[:upper:]' '[:lower:]') in
      webhook-id) id=$value ;;
      webhook-timestamp) timestamp=$value ;;
      webhook-signature) signatures=$value ;;
      content-length) bytes=$value ;;
    esac
  done
  case $bytes in '' | *[!0-9]* | ?????????*) respond '400 Bad Request'; return ;; esac
  [ "$bytes" -le "$max_body_bytes" ] || { respond '413 Content Too Large'; return; }
  body=$(mktemp)
  trap 'rm -f "$body"' EXIT
  head -c "$bytes" > "$body"
  if verify "$body" "$id" "$timestamp" "$signatures"; then
    # Respond first and work afterwards. The same callback can arrive more than once: recognize it by the job ID, which is also webhook-id.
    respond '204 No Content'
    echo "verified callback: job $(field job_id < "$body") $(field status < "$body")" >&2
  else
    respond '401 Unauthorized'
    echo "rejected: $request_line" >&2
  fi
}

case ${1-demo} in
  demo) demo ;;
  receive) receive ;;
  *) echo "usage: sh $0 [receive]" >&2; exit 2 ;;
esac
