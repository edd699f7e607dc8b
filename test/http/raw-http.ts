/** Sends raw HTTP over a socket: requests that no HTTP client would send, or requests in several pieces. */
import { connect } from 'node:net'
import type { Answer, Parley } from '../parley.ts'

export interface Line {
  send(data: string | Uint8Array): void
  until(pattern: RegExp): Promise<string>
  readonly closed: Promise<string>
  hangUp(): void
}

export function openLine({ url }: Pick<Parley, 'url'>): Line {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let came = ''
  const watchers = new Set<() => void>()
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    came += text
    for (const watcher of watchers) watcher()
  })
  // The server may end the connection with a reset, which the socket reports as an error.
  socket.on('error', () => {})
  const closed = new Promise<string>((resolve) => {
    socket.once('close', () => resolve(came))
  })
  return {
    send: (data) => void socket.write(data),
    until: (pattern) =>
      new Promise((resolve) => {
        const watcher = () => {
          if (!pattern.test(came)) return
          watchers.delete(watcher)
          resolve(came)
        }
        watchers.add(watcher)
        watcher()
      }),
    closed,
    hangUp: () => void socket.destroy(),
  }
}

export async function talk(parley: Pick<Parley, 'url'>, data: string | Uint8Array): Promise<Answer> {
  const line = openLine(parley)
  line.send(data)
  return readAnswer(await line.closed)
}

export function readAnswer(came: string): Answer {
  const text = came.slice(came.lastIndexOf('\r\n\r\n') + 4)
  const head = came.slice(came.lastIndexOf('HTTP/1.1 '), came.lastIndexOf('\r\n\r\n'))
  const [statusLine = '', ...lines] = head.split('\r\n')
  const headers = new Headers(
    lines.map((line): [string, string] => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 1).trim()]
    }),
  )
  return {
    status: Number(statusLine.split(' ')[1]),
    headers,
    text,
    body: text === '' ? undefined : JSON.parse(text),
  }
}
