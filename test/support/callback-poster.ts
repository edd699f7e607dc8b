/** Starts a receiver and a poster that may connect to it, for tests of callbacks. */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { type OpenSocket, openSocket } from '../../src/net/guarded-connect.ts'
import {
  createPoster,
  type Poster,
  type PosterOptions,
  type PostRequest,
  type PostResult,
} from '../../src/net/post.ts'
import { readNetworks } from '../../src/net/ssrf-guard.ts'
import { type Receiver, type ReceiverOptions, startReceiver } from '../receiver.ts'

const loopback = readNetworks(['127.0.0.0/8'])
assert.ok(loopback.ok)
export const ALLOW_LOOPBACK = { allow: loopback.networks, httpsOnly: false }

export const IDLE_LIMITS = { total: 64, perOrigin: 8 }

export interface PosterSetup {
  readonly receiver: Receiver
  readonly poster: Poster
  /** Counts the poster's open connections. The receiver's count can be late, this one never is. */
  openSockets(): number
  post(request?: Partial<PostRequest>): Promise<PostResult>
  /** The POST must be answered. */
  answer(request?: Partial<PostRequest>): Promise<Extract<PostResult, { kind: 'answered' }>>
  /** The POST must fail. Returns the message. */
  failure(request?: Partial<PostRequest>): Promise<string>
}

export async function startPoster(
  t: TestContext,
  options: Partial<PosterOptions> = {},
  receiverOptions: ReceiverOptions = {},
): Promise<PosterSetup> {
  const receiver = await startReceiver(receiverOptions)
  const sockets: Socket[] = []
  const open: OpenSocket = (address, port) => {
    const socket = (options.open ?? openSocket)(address, port)
    sockets.push(socket)
    return socket
  }
  const poster = createPoster({
    rules: ALLOW_LOOPBACK,
    timeoutMs: 15_000,
    idle: IDLE_LIMITS,
    ...options,
    open,
  })
  t.after(async () => {
    await poster.close()
    await receiver.close()
  })
  const openSockets = () => sockets.filter((socket) => !socket.destroyed).length
  const post = (request: Partial<PostRequest> = {}) =>
    poster.post({ url: `${receiver.url}/hook`, headers: {}, body: '{}', ...request })
  const answer: PosterSetup['answer'] = async (request) => {
    const result = await post(request)
    assert.ok(result.kind === 'answered', JSON.stringify(result))
    return result
  }
  const failure: PosterSetup['failure'] = async (request) => {
    const result = await post(request)
    assert.ok(result.kind === 'failed', JSON.stringify(result))
    return result.message
  }
  return { receiver, poster, openSockets, post, answer, failure }
}
