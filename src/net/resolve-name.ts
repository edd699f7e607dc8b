/** Finds every address of a name, without letting a slow name server hold anything that others need. */
import { lookup, Resolver } from 'node:dns/promises'
import { until } from './deadline.ts'

/** Every A and AAAA record of a name, at least one. Rejects when there is none, and soon after the signal aborts. */
export type ResolveName = (name: string, signal: AbortSignal) => Promise<readonly string[]>

export interface ResolverOptions {
  /**
   * Whether names that DNS does not know are looked for where the system does: in the hosts file and under its search
   * domains. Those lead into private networks, so it is of use only where some have been opened.
   */
  readonly systemNames: boolean
  /** Name servers as `address:port`, instead of the system's. */
  readonly servers?: readonly string[]
}

/** One unanswered question is asked again after this; two of them fit into the time there is to connect. */
const QUESTION_MS = 2000
const QUESTIONS = 2

/**
 * DNS is asked directly and not through the system's resolver, which runs in the few threads that files and all other
 * look-ups share: a caller's slow name server would hold them for tens of seconds.
 */
export function createResolver(options: ResolverOptions): ResolveName {
  let lane: Promise<unknown> = Promise.resolve()

  /** One at a time, so that at most one of those threads is ever held. */
  function askSystem(name: string, signal: AbortSignal): Promise<readonly string[]> {
    const turn = lane.then(async () => {
      signal.throwIfAborted()
      const found = await lookup(name, { all: true, order: 'verbatim' })
      return found.map(({ address }) => address)
    })
    lane = turn.catch(() => {})
    return until(signal, turn)
  }

  return async (name, signal) => {
    const answer = await askDns(name, signal, options.servers)
    signal.throwIfAborted()
    if (answer.addresses.length > 0) return answer.addresses
    if (options.systemNames) return askSystem(name, signal)
    throw answer.error
  }
}

interface DnsAnswer {
  readonly addresses: readonly string[]
  /** Why there is no address. */
  readonly error: unknown
}

async function askDns(
  name: string,
  signal: AbortSignal,
  servers: readonly string[] | undefined,
): Promise<DnsAnswer> {
  // A resolver of its own (it costs microseconds), because cancelling ends every question of a resolver.
  const resolver = new Resolver({ timeout: QUESTION_MS, tries: QUESTIONS })
  if (servers !== undefined) resolver.setServers(servers)
  const cancel = () => resolver.cancel()
  signal.addEventListener('abort', cancel, { once: true })
  try {
    const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    return {
      addresses: [...foundIn(ipv4), ...foundIn(ipv6)],
      error: ipv4.status === 'rejected' ? ipv4.reason : new Error(`${name} has no address`),
    }
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}

function foundIn(settled: PromiseSettledResult<string[]>): readonly string[] {
  return settled.status === 'fulfilled' ? settled.value : []
}
