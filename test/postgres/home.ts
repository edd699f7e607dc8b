/**
 * Gives this process's clusters a folder, and starts a watcher: a small shell that reads from a pipe. However this process
 * ends, the pipe closes. The watcher then ends the remaining servers and removes the folder. So the process needs no hook at
 * its end, and a killed run leaves nothing behind.
 */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, statSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

// Each line contains the process IDs of all running servers. SIGQUIT shuts Postgres down immediately and removes its
// postmaster.pid. Its process may remain as a zombie for a while, so the watcher waits for the file to disappear instead.
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
    // The servers may run as another user, who needs access to the folder.
    chmodSync(this.folder, 0o755)
    // Killing the process group of the tests must not kill the watcher, so it is detached.
    const options = { detached: true, stdio: ['pipe', 'ignore', 'ignore'] satisfies StdioOptions, cwd: '/' }
    this.#watcher = spawn('/bin/sh', ['-c', WATCH, 'watcher', this.folder], options)
    this.#watcher.unref()
    const pipe = this.#watcher.stdin as Socket
    pipe.unref()
    // If the watcher has ended, the tests continue without it.
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

/** Root starts servers as another user, who may not be allowed to use root's temporary folder. */
function temporaryPlace(): string {
  const place = tmpdir()
  return process.getuid?.() === 0 && !openToAll(place) ? '/tmp' : place
}

function openToAll(folder: string): boolean {
  const above = dirname(folder)
  return (statSync(folder).mode & 0o001) !== 0 && (above === folder || openToAll(above))
}
