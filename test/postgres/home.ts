/**
 * Provides the folder of this process's clusters, with a watcher: a small shell that holds the other end of a pipe. However this
 * process ends, the pipe closes, and the watcher ends the remaining servers and removes the folder. So nothing here needs a hook
 * at the end of the process, and a killed run leaves nothing behind.
 */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, statSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

// Each line contains the process IDs of all running servers. SIGQUIT is Postgres's immediate shutdown, at whose end the
// server removes its postmaster.pid; its process may remain as a zombie until another process reaps it.
const WATCH = `
  while read -r line; do running=$line; done
  [ -z "$running" ] || kill -QUIT $running 2>/dev/null
  for pid in $running; do
    turns=0
    while kill -0 "$pid" 2>/dev/null && ls "$1"/*/data/postmaster.pid >/dev/null 2>&1 && [ "$turns" -lt 100 ]; do
      turns=$((turns + 1))
      sleep 0.1
    done
  done
  rm -rf "$1"`

export class Home {
  readonly folder: string
  readonly #watcher: ChildProcess
  readonly #running = new Set<number>()

  constructor() {
    this.folder = mkdtempSync(join(temporaryPlace(), 'parley-postgres-'))
    // The servers may run as another user, who needs access to them.
    chmodSync(this.folder, 0o755)
    // The watcher is detached, so that killing the process group of the tests does not kill it before its work.
    const options = { detached: true, stdio: ['pipe', 'ignore', 'ignore'] satisfies StdioOptions, cwd: '/' }
    this.#watcher = spawn('/bin/sh', ['-c', WATCH, 'watcher', this.folder], options)
    this.#watcher.unref()
    const pipe = this.#watcher.stdin as Socket
    pipe.unref()
    // Without a watcher there is nothing to notify; the tests continue.
    pipe.on('error', () => {})
  }

  runs(pid: number): void {
    this.#running.add(pid)
    this.#tell()
  }

  ended(pid: number): void {
    this.#running.delete(pid)
    this.#tell()
  }

  /** Ends running servers and removes the folder before the end of the process. */
  async remove(): Promise<void> {
    if (this.#watcher.exitCode !== null || this.#watcher.signalCode !== null) return
    this.#watcher.ref()
    this.#watcher.stdin?.end()
    await once(this.#watcher, 'exit')
  }

  #tell(): void {
    this.#watcher.stdin?.write(`${[...this.#running].join(' ')}\n`)
  }
}

let ours: Home | undefined

export function home(): Home {
  ours ??= new Home()
  return ours
}

export async function removeHome(): Promise<void> {
  await ours?.remove()
  ours = undefined
}

/** Returns a folder for servers, which root starts as another user, who may lack access to root's temporary folder. */
function temporaryPlace(): string {
  const place = tmpdir()
  return process.getuid?.() === 0 && !openToAll(place) ? '/tmp' : place
}

function openToAll(folder: string): boolean {
  const above = dirname(folder)
  return (statSync(folder).mode & 0o001) !== 0 && (above === folder || openToAll(above))
}
