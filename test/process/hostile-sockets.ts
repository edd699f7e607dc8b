/** Opens connections of clients that send or read as badly as possible. */
import { connect, type Socket } from 'node:net'

export interface HostileSocket {
  readonly text: () => string
  /** Resolves when the operating system has taken everything, or the connection is closed. */
  readonly send: (data: string | Uint8Array) => Promise<void>
  /** Resolves when the connection is closed, with the milliseconds since it was opened. */
  readonly closed: Promise<number>
  readonly close: () => void
}

export interface SocketOptions {
  readonly reads?: boolean
}

export async function hostileSocket(
  url: string,
  { reads = true }: SocketOptions = {},
): Promise<HostileSocket> {
  const { hostname, port } = new URL(url)
  const startMs = performance.now()
  const socket = connect({ port: Number(port), host: hostname })
  let text = ''
  // A reset is one way to close.
  socket.on('error', () => {})
  const closed = new Promise<number>((resolve) => {
    socket.once('close', () => resolve(performance.now() - startMs))
  })
  await connected(socket)
  if (reads) {
    socket.setEncoding('latin1').on('data', (piece: string) => {
      text += piece
    })
  }
  return {
    text: () => text,
    send: (data) => new Promise((resolve) => socket.write(data, () => resolve())),
    closed,
    close: () => socket.destroy(),
  }
}

function connected(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once('connect', () => resolve())
    socket.once('close', () => resolve())
  })
}

export function postHead(path: string, key: string, bytes: number): string {
  const lines = [
    `POST ${path} HTTP/1.1`,
    'host: parley',
    `x-api-key: ${key}`,
    'content-type: application/json',
  ]
  return `${[...lines, `content-length: ${bytes}`].join('\r\n')}\r\n\r\n`
}

export function getHead(path: string, key: string | null): string {
  const lines = [`GET ${path} HTTP/1.1`, 'host: parley', ...(key === null ? [] : [`x-api-key: ${key}`])]
  return `${lines.join('\r\n')}\r\n\r\n`
}
