/** Looks up every address of a name. A slow name server does not block other lookups. */
import { lookup, Resolver } from 'node:dns/promises'
import { abortable } from './deadline.ts'

/** Returns every A and AAAA record of a name, at least one. Rejects if there is none, and soon after the signal aborts. */
export type ResolveName = (name: string, signal: AbortSignal) => Promise<readonly string[]>

export interface ResolverOptions {
  /**
   * Whether names without DNS records are looked up as the system does: in the hosts file and under its search domains. Those
   * lead into private networks, so this is useful only if the settings allow some of them.
   */
  readonly systemNames: boolean
  /** Name servers as `address:port`, instead of the system's. */
  readonly servers?: readonly string[]
}

/** The timeout of the first DNS query; that of the second is up to twice as long. */
const QUERY_TIMEOUT_MS = 2000
const QUERY_TRIES = 2
/** Once there are addresses of one kind, those of the other have this long, because some name servers never answer AAAA. */
const OTHER_KIND_MS = 1000

/**
 * Queries DNS directly. The system's resolver runs in the few threads that file operations and all other lookups share, and a
 * caller's slow name server would block them for tens of seconds.
 */
export function createResolver(options: ResolverOptions): ResolveName {
  let previous: Promise<unknown> = Promise.resolve()

  /** Runs one lookup at a time, so that at most one of those threads is in use. */
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
  /** The reason if there are no addresses. */
  readonly error: unknown
}

async function queryDns(
  name: string,
  signal: AbortSignal,
  servers: readonly string[] | undefined,
): Promise<DnsAnswer> {
  // Cancelling ends every query of a resolver, so each lookup has its own; it costs microseconds.
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
