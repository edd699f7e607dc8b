/** Determines the number of request threads from the setting `threads`, and the reason if it is smaller. */
import type { Settings } from './settings.ts'

/** What the setting may be. */
export const MAX_THREADS = 64
/** With fewer cores the main thread, the storage thread and the model server have enough to do. */
const LEAST_CORES = 4
/** More are never faster: the main thread is full before. */
const MOST_AUTOMATIC = 8
/** What a thread's requests keep busy: accepting, settling and reading. With fewer, more threads would wait for the database. */
const CONNECTIONS_PER_THREAD = 3
/** The first Node that moves connections between threads. */
const MOVES_CONNECTIONS = [26, 6] as const

export interface ThreadCountFacts {
  readonly cores: number
  /** Of Node. */
  readonly version: string
  readonly isPostgres: boolean
}

export interface ThreadCount {
  readonly threads: number
  /** Why there are fewer than the setting asks for; null otherwise. */
  readonly note: string | null
}

export function threadCount(
  { threads: given, host, postgres: { connections } }: Pick<Settings, 'threads' | 'host' | 'postgres'>,
  { cores, version, isPostgres }: ThreadCountFacts,
): ThreadCount {
  const automatic = cores < LEAST_CORES ? 1 : Math.min(MOST_AUTOMATIC, cores - 1)
  const wanted = given === 'auto' ? automatic : given
  if (wanted === 1) return { threads: 1, note: null }
  if (host.startsWith('unix:')) {
    const note = 'one request thread: connections on a Unix socket cannot be moved to others'
    return { threads: 1, note: given === 'auto' ? null : note }
  }
  if (!movesConnections(version)) {
    const first = MOVES_CONNECTIONS.join('.')
    return {
      threads: 1,
      note: `one request thread: Node ${version} cannot move connections, Node ${first} can`,
    }
  }
  const most = isPostgres ? Math.max(1, Math.floor(connections / CONNECTIONS_PER_THREAD)) : wanted
  if (wanted <= most) return { threads: wanted, note: null }
  return {
    threads: most,
    note: `${most === 1 ? 'one request thread' : `${most} request threads`} instead of ${wanted}: postgres.connections is ${connections}, and each thread needs ${CONNECTIONS_PER_THREAD}`,
  }
}

function movesConnections(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [firstMajor, firstMinor] = MOVES_CONNECTIONS
  return major > firstMajor || (major === firstMajor && minor >= firstMinor)
}
