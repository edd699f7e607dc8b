/** Looks up all addresses of a name, so that a slow name server does not block other lookups. */
import { lookup, Resolver } from 'node:dns/promises'
import { abortable } from './deadline.ts'

/** Returns all addresses of a name, at least one. Rejects if there is none, and soon after the signal aborts. */
export type ResolveName = (name: string, signal: AbortSignal) => Promise<readonly string[]>

export interface ResolverOptions {
  /**
   * Whether names without DNS records are looked up by the system: in the hosts file and under its search domains. These lead
   * to private networks, so this is only useful if the settings allow some of them.
   */
  readonly systemNames: boolean
  /** Name servers as `address:port`. If absent, those of the system. */
  readonly servers?: readonly string[]
}

/** The timeout of the first DNS query, in milliseconds. The second query may take up to twice as long. */
const QUERY_TIMEOUT_MS = 2000
const QUERY_TRIES = 2
/**
 * When the addresses of one kind (A or AAAA) have arrived, those of the other kind have this many milliseconds, because some
 * name servers never answer AAAA queries.
 */
const OTHER_KIND_MS = 1000

/**
 * Creates the function that looks up names. It queries DNS directly, because the system's resolver uses a few threads that are
 * shared with file operations. A caller's slow name server would block them for tens of seconds.
 */
export function createResolver(options: ResolverOptions): ResolveName {
  let previous: Promise<unknown> = Promise.resolve()

  /** Uses the system's resolver for one lookup at a time, so that it blocks at most one of those threads. */
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
  /** Why `addresses` is empty; meaningless otherwise. */
  readonly error: unknown
}

async function queryDns(
  name: string,
  signal: AbortSignal,
  servers: readonly string[] | undefined,
): Promise<DnsAnswer> {
  // `cancel` ends all queries of a resolver, so each lookup has its own resolver, which takes microseconds to create.
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
