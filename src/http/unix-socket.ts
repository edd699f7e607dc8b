/** Listening on a Unix socket instead of a port (`HOST=unix:/path`), as for a reverse proxy on the same machine. */
import { once } from 'node:events'
import { chmod, lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'

const PREFIX = 'unix:'
/** Owner and group may connect: put the proxy's user into the group of the server's. */
const MODE = 0o660

/** The path in `unix:/path`; null for an address or a name. */
export function socketPathOf(host: string): string | null {
  return host.startsWith(PREFIX) ? host.slice(PREFIX.length) : null
}

/**
 * Removes a socket file left behind by a killed server. Rejects with code EADDRINUSE if a server listens on it, or if the
 * file is not a socket.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  const file = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (file === null) return
  if (!file.isSocket()) throw inUse(`${path} is not a socket`)
  if (await isListenedOn(path)) throw inUse(`another program listens on ${path}`)
  await unlink(path)
}

/** Call this after the server has started to listen. */
export async function openSocketToGroup(path: string): Promise<void> {
  await chmod(path, MODE)
}

async function isListenedOn(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return false
    // Its queue of connections is full.
    if (code === 'EAGAIN') return true
    throw error
  } finally {
    socket.destroy()
  }
}

function inUse(message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code: 'EADDRINUSE' })
}
