/**
 * Connects to the host of a callback URL if callbacks may go to all of its addresses. The connection goes to an address that
 * was checked, because a second lookup could return a different one.
 */
import { lookup, Resolver } from 'node:dns/promises'
import { isIP, connect as netConnect, type Socket } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import type { Clock } from '../clock.ts'
import { abortable, asError, codeOf, startDeadline } from './deadline.ts'
import { type AddressRules, hostOf, isBlockedAddress, localhostAddresses } from './ssrf-guard.ts'

/** Tests replace this function to observe the addresses. */
export type OpenSocket = (address: string, port: number) => Socket

export interface ConnectOptions {
  readonly rules: AddressRules
  readonly clock: Clock
  readonly resolve: ResolveName
  readonly open: OpenSocket
  /** The timeout covers lookup, TCP and TLS together. */
  readonly timeoutMs: number
}

export type ConnectResult =
  | { readonly kind: 'connected'; readonly socket: Socket }
  /** The rules forbid the address. A retry succeeds only if DNS or the settings have changed. */
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'failed'; readonly message: string }

/** All addresses of a host are checked, but only this many are tried. */
export const MAX_ADDRESSES_TRIED = 4

export const openSocket: OpenSocket = (address, port) => netConnect({ host: address, port, noDelay: true })

/** Never rejects. If `signal` aborts before this resolves, no socket stays open. */
export async function guardedConnect(
  url: URL,
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<ConnectResult> {
  const host = hostOf(url)
  const message = `no connection to ${host} within ${options.timeoutMs / 1000} s`
  const deadline = startDeadline(options.clock, options.timeoutMs, message, signal)
  const deadlineAtMs = options.clock.steadyMs() + options.timeoutMs
  try {
    const addresses = await addressesOf(host, options, deadline.signal)
    const blocked = addresses.find((address) => isBlockedAddress(address, options.rules.allow))
    if (blocked !== undefined) return refusal(host, blocked)
    const connected = await connectToAny(addresses, portOf(url), options, deadlineAtMs, deadline.signal)
    if (connected.kind !== 'connected' || url.protocol !== 'https:') return connected
    return await startTls(connected.socket, host, deadline.signal)
  } catch (error) {
    const code = codeOf(error)
    const why = code === 'ENOTFOUND' || code === 'ENODATA' ? `${host} has no address` : asError(error).message
    return { kind: 'failed', message: why }
  } finally {
    deadline.clear()
  }
}

async function addressesOf(
  host: string,
  { rules, resolve }: ConnectOptions,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (isIP(host) !== 0) return [host]
  const local = localhostAddresses(host, rules.allow)
  const addresses = local ?? (await abortable(signal, resolve(host, signal)))
  if (addresses.length === 0)
    throw new Error(`${host} does not resolve to an address that callbacks may be sent to`)
  return addresses
}

/** Each address gets an equal share of the remaining time, so that an unreachable one leaves time for the next. */
async function connectToAny(
  addresses: readonly string[],
  port: number,
  options: ConnectOptions,
  deadlineAtMs: number,
  signal: AbortSignal,
): Promise<ConnectResult> {
  const tried = addresses.slice(0, MAX_ADDRESSES_TRIED)
  const messages: string[] = []
  for (const [index, address] of tried.entries()) {
    const shareMs = Math.max(0, deadlineAtMs - options.clock.steadyMs()) / (tried.length - index)
    const share = startDeadline(options.clock, shareMs, 'timed out', signal)
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
      share.clear()
    }
  }
  return { kind: 'failed', message: `no connection to ${messages.join('; ')}` }
}

/** The certificate must be valid for the host of the URL. */
async function startTls(socket: Socket, host: string, signal: AbortSignal): Promise<ConnectResult> {
  // A TLS server name cannot be an address. For an address, the certificate is checked against `host`.
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

/** Resolves at the event. If the socket fails or the signal aborts first, destroys the socket and rejects with the reason. */
async function opened(
  socket: Socket,
  event: 'connect' | 'secureConnect',
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.once(event, resolve)
  // This listener stays, because an error before the socket is used would otherwise end the process.
  socket.on('error', reject)
  const closed = () => reject(new Error('the connection was closed'))
  socket.once('close', closed)
  try {
    await abortable(signal, promise)
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    socket.off('close', closed)
  }
}

function refusal(host: string, address: string): ConnectResult {
  const where = host === address ? host : `${host} resolves to ${address}, which`
  return {
    kind: 'refused',
    message: `${where} is not an address that callbacks may be sent to (setting \`callbacks.allow_networks\`)`,
  }
}

function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port)
  return url.protocol === 'https:' ? 443 : 80
}

/** Resolves with at least one address. Rejects if the name has no address, and soon after the signal aborts. */
export type ResolveName = (name: string, signal: AbortSignal) => Promise<readonly string[]>

interface ResolverOptions {
  /**
   * If true, names without DNS records are looked up in the system's hosts file and search domains. These usually lead to
   * private networks, so this is useful only if the settings allow some of them.
   */
  readonly systemNames: boolean
  /** Each server has the form `address:port`. The system's servers are the default. */
  readonly servers?: readonly string[]
}

/** The first DNS query has this timeout. The second query may take up to twice as long. */
const QUERY_TIMEOUT_MS = 2000
const QUERY_TRIES = 2
/** After A or AAAA addresses arrive, the other query has this long, because some servers never answer AAAA queries. */
const OTHER_KIND_MS = 1000

/**
 * Creates a function that queries DNS directly. The system's resolver runs on a few threads that file operations also need, and
 * a caller's slow name server would block those threads for tens of seconds.
 */
export function createResolver(options: ResolverOptions): ResolveName {
  let previous: Promise<unknown> = Promise.resolve()

  /** Runs one lookup at a time, so that lookups block at most one of the shared threads. */
  function lookUpInSystem(name: string, signal: AbortSignal): Promise<readonly string[]> {
    const result = previous.then(async () => {
      signal.throwIfAborted()
      const found = await lookup(name, { all: true, order: 'verbatim' })
      return found.map(({ address }) => address)
    })
    previous = result.catch(() => {})
    return abortable(signal, result)
  }

  return async (name, signal) => {
    const answer = await queryDns(name, signal, options.servers)
    signal.throwIfAborted()
    if (answer.addresses.length > 0) return answer.addresses
    if (options.systemNames) return lookUpInSystem(name, signal)
    throw answer.error
  }
}

interface DnsAnswer {
  readonly addresses: readonly string[]
  /** The caller needs the error only if there are no addresses. */
  readonly error: unknown
}

async function queryDns(
  name: string,
  signal: AbortSignal,
  servers: readonly string[] | undefined,
): Promise<DnsAnswer> {
  // `cancel` ends all queries of a resolver, so each lookup has its own resolver. Creating one takes microseconds.
  const resolver = new Resolver({ timeout: QUERY_TIMEOUT_MS, tries: QUERY_TRIES })
  if (servers !== undefined) resolver.setServers(servers)
  const cancel = () => resolver.cancel()
  signal.addEventListener('abort', cancel, { once: true })
  let timer: NodeJS.Timeout | undefined
  const startTimer = (addresses: string[]) => {
    timer ??= setTimeout(cancel, OTHER_KIND_MS)
    return addresses
  }
  try {
    const [ipv4, ipv6] = await Promise.allSettled([
      resolver.resolve4(name).then(startTimer),
      resolver.resolve6(name).then(startTimer),
    ])
    return {
      addresses: [...addressesIn(ipv4), ...addressesIn(ipv6)],
      error: ipv4.status === 'rejected' ? ipv4.reason : new Error(`${name} has no address`),
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', cancel)
  }
}

function addressesIn(settled: PromiseSettledResult<string[]>): readonly string[] {
  return settled.status === 'fulfilled' ? settled.value : []
}
