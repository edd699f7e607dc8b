/** A receiver and a poster that may reach it, for the tests of this folder. */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { type OpenSocket, openSocket } from '../../src/net/dial.ts'
import { createPoster, type Poster, type PosterOptions, type PostRequest } from '../../src/net/post.ts'
import { readNetworks } from '../../src/net/ssrf-guard.ts'
import { type Receiver, type ReceiverOptions, startReceiver } from '../receiver.ts'

const loopback = readNetworks(['127.0.0.0/8'])
assert.ok(loopback.ok)
/** The addresses of IPv4's loopback may be called. */
export const OPEN = { allow: loopback.networks, httpsOnly: false }

export const KEEP = { total: 64, perOrigin: 8 }

export interface Parts {
  readonly receiver: Receiver
  readonly poster: Poster
  /** Connections that the poster has opened and not ended. Unlike the receiver's count it is right at once. */
  openSockets(): number
  post(request?: Partial<PostRequest>): ReturnType<Poster['post']>
}

/** Both end with the test. */
export async function startPoster(
  t: TestContext,
  options: Partial<PosterOptions> = {},
  receiverOptions: ReceiverOptions = {},
): Promise<Parts> {
  const receiver = await startReceiver(receiverOptions)
  const sockets: Socket[] = []
  const open: OpenSocket = (address, port) => {
    const socket = (options.open ?? openSocket)(address, port)
    sockets.push(socket)
    return socket
  }
  const poster = createPoster({ rules: OPEN, timeoutMs: 15_000, keep: KEEP, ...options, open })
  t.after(async () => {
    await poster.close()
    await receiver.close()
  })
  const openSockets = () => sockets.filter((socket) => !socket.destroyed).length
  const post = (request: Partial<PostRequest> = {}) =>
    poster.post({ url: `${receiver.url}/hook`, headers: {}, body: '{}', ...request })
  return { receiver, poster, openSockets, post }
}
