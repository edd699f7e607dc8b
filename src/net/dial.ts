/**
 * Opens a connection to the host of a URL, if every address of that host may be connected to. What was checked is what
 * is connected to: no look-up comes between, so a name that changes its mind gains nothing.
 */
import { isIP, connect as netConnect, type Socket } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import type { Clock } from '../clock.ts'
import { asError, codeOf, startDeadline, until } from './deadline.ts'
import type { ResolveName } from './resolve-name.ts'
import { type AddressRules, hostOf, isBlockedAddress, localhostAddresses } from './ssrf-guard.ts'

/** Starts a TCP connection. Replaced by tests, to see what would be connected to. */
export type OpenSocket = (address: string, port: number) => Socket

export interface DialOptions {
  readonly rules: AddressRules
  readonly clock: Clock
  readonly resolve: ResolveName
  readonly open: OpenSocket
  /** For everything: look-up, TCP and TLS. */
  readonly connectMs: number
}

export type Dialed =
  | { readonly kind: 'connected'; readonly socket: Socket }
  /** By our rules: no time and no retry will change it unless the name or the settings change. */
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'failed'; readonly message: string }

/** A host with more addresses than this is tried at the first of them only; all are checked. */
export const MAX_ADDRESSES_TRIED = 4

export const openSocket: OpenSocket = (address, port) => netConnect({ host: address, port, noDelay: true })

/** Never rejects. After `signal` has aborted nothing stays open. */
export async function dial(url: URL, options: DialOptions, signal: AbortSignal): Promise<Dialed> {
  const host = hostOf(url)
  const message = `no connection to ${host} within ${options.connectMs / 1000} s`
  const deadline = startDeadline(options.clock, options.connectMs, message, signal)
  const giveUpAtMs = options.clock.steadyMs() + options.connectMs
  try {
    const addresses = await addressesOf(host, options, deadline.signal)
    const refused = addresses.find((address) => isBlockedAddress(address, options.rules.allow))
    if (refused !== undefined) return refusal(host, refused)
    const connected = await connectToAny(addresses, portOf(url), options, giveUpAtMs, deadline.signal)
    if (connected.kind !== 'connected' || url.protocol !== 'https:') return connected
    return await secure(connected.socket, host, deadline.signal)
  } catch (error) {
    const code = codeOf(error)
    const why = code === 'ENOTFOUND' || code === 'ENODATA' ? `${host} has no address` : asError(error).message
    return { kind: 'failed', message: why }
  } finally {
    deadline.end()
  }
}

async function addressesOf(
  host: string,
  { rules, resolve }: DialOptions,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (isIP(host) !== 0) return [host]
  const local = localhostAddresses(host, rules.allow)
  const addresses = local ?? (await until(signal, resolve(host, signal)))
  if (addresses.length === 0) throw new Error(`${host} has no address that callbacks may go to`)
  return addresses
}

/** Tries one address after the other; each gets an equal share of the time left, so that a dead one leaves some. */
async function connectToAny(
  addresses: readonly string[],
  port: number,
  options: DialOptions,
  giveUpAtMs: number,
  signal: AbortSignal,
): Promise<Dialed> {
  const tried = addresses.slice(0, MAX_ADDRESSES_TRIED)
  const messages: string[] = []
  for (const [index, address] of tried.entries()) {
    const shareMs = Math.max(0, giveUpAtMs - options.clock.steadyMs()) / (tried.length - index)
    const share = startDeadline(options.clock, shareMs, 'no answer in time', signal)
    const socket = options.open(address, port)
    try {
      await opened(socket, 'connect', share.signal)
      const remote = socket.remoteAddress
      if (remote !== undefined && !isBlockedAddress(remote, options.rules.allow)) {
        return { kind: 'connected', socket }
      }
      socket.destroy()
      return refusal(address, remote ?? 'an unknown address')
    } catch (error) {
      signal.throwIfAborted()
      messages.push(`${address} port ${port}: ${codeOf(error) || asError(error).message}`)
    } finally {
      share.end()
    }
  }
  return { kind: 'failed', message: `no connection to ${messages.join('; ')}` }
}

/** TLS over a connection that has been checked; the certificate must be for the host of the URL. */
async function secure(socket: Socket, host: string, signal: AbortSignal): Promise<Dialed> {
  // TLS knows no server names that are addresses; the certificate is then held against `host`.
  const servername = isIP(host) === 0 ? host : ''
  const secured = tlsConnect({ socket, host, servername, ALPNProtocols: ['http/1.1'] })
  try {
    await opened(secured, 'secureConnect', signal)
    return { kind: 'connected', socket: secured }
  } catch (error) {
    socket.destroy()
    signal.throwIfAborted()
    const code = codeOf(error)
    return {
      kind: 'failed',
      message: `no TLS with ${host}: ${asError(error).message}${code === '' ? '' : ` (${code})`}`,
    }
  }
}

/** Resolves at the event; otherwise rejects with the socket's error or the signal's reason, and the socket is gone. */
async function opened(
  socket: Socket,
  event: 'connect' | 'secureConnect',
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.once(event, resolve)
  // This listener stays: an error between this moment and the first use of the socket must not end the process.
  socket.on('error', reject)
  const closed = () => reject(new Error('the connection was closed'))
  socket.once('close', closed)
  try {
    await until(signal, promise)
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    socket.off('close', closed)
  }
}

function refusal(host: string, address: string): Dialed {
  const where = host === address ? host : `${host} resolves to ${address}, which`
  return {
    kind: 'refused',
    message: `${where} is not an address that callbacks may go to (setting \`callbacks.allow_networks\`)`,
  }
}

function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port)
  return url.protocol === 'https:' ? 443 : 80
}
