#!/bin/sh
# Starts two Parley nodes on one Postgres database, with nginx in front of them. README.md in this folder explains how to use it.
#
#     DATABASE_URL=postgres://localhost/parley sh start.sh
#
# DATABASE_URL  a Postgres database; the first node creates the tables
# LISTEN        where nginx listens: an address and a port, or unix:/path (default: 127.0.0.1:8080)
# FOLDER        for sockets, logs and process IDs (default: the folder `run` next to this file)
#
# Ctrl-C, or SIGTERM to this script, stops nginx and both nodes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
: "${DATABASE_URL:?set it to a Postgres database, such as postgres://localhost/parley}"
mkdir -p "${FOLDER:-$here/run}"
# From here on, paths are relative, because the path of a Unix socket is limited to about 100 characters.
cd "${FOLDER:-$here/run}"

# On Postgres, the simulator answers only if PARLEY_SIMULATOR is true.
if [ -z "${OPENAI_API_KEY:-}${OPENAI_BASE_URL:-}${OPENAI_MODEL:-}" ]; then
  export PARLEY_SIMULATOR="${PARLEY_SIMULATOR:-true}"
  echo 'No model is configured: the simulator answers. Set OPENAI_API_KEY to get answers of a model.'
fi

clone=$here/../..
node() {
  # With `exec`, the process ID is Parley's.
  if [ -e "$clone/src/main.ts" ]; then
    exec "$clone/node_modules/.bin/node" --max-semi-space-size=64 "$clone/src/main.ts" serve
  fi
  exec parley serve
}

# start_node NAME: starts a node and returns when it accepts jobs.
start_node() {
  PARLEY_CONFIG=$here/parley.config.json HOST=unix:$1.sock node 2>> "$1.log" &
  echo $! > "$1.pid"
  until curl --silent --fail --output /dev/null --unix-socket "$1.sock" http://localhost/readyz; do
    kill -0 "$(cat "$1.pid")" 2>/dev/null || { echo "$1 did not start; see $PWD/$1.log" >&2; exit 1; }
    sleep 0.2
  done
}

# nginx stops first. The nodes then wait up to jobs.drain_seconds for running jobs.
stop() {
  trap '' INT TERM
  for name in nginx node-1 node-2; do
    [ ! -s $name.pid ] || kill -TERM "$(cat $name.pid)" 2>/dev/null || true
  done
  wait
}
rm -f node-1.pid node-2.pid nginx.pid
trap stop EXIT
trap 'exit 0' INT TERM

# The first node creates the tables and prints the first API key, so the second must start later.
start_node node-1
start_node node-2

mkdir -p nginx-tmp
listen=${LISTEN:-127.0.0.1:8080}
sed "s|127.0.0.1:8080|$listen|" "$here/nginx.conf" > nginx.conf
# If root starts nginx, its workers would run as another user, who cannot open the sockets of the nodes.
user=''
[ "$(id -u)" != 0 ] || user='user root root;'
nginx -p "$PWD/" -c nginx.conf -g "$user" &
# nginx writes this file once it listens.
until [ -s nginx.pid ]; do
  kill -0 $! 2>/dev/null || exit 1
  sleep 0.1
done
echo "nginx listens on $listen"
wait $!
