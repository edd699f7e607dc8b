/** Creates the router and its model servers: a client for each upstream, or the simulator for all of them. */
import type { Clock } from '../clock.ts'
import type { Configuration } from '../config/load.ts'
import { tiersOf } from '../config/tiers.ts'
import type { Log } from '../telemetry/log.ts'
import { START_CONCURRENCY } from '../upstreams/concurrency-limit.ts'
import type { ModelServer } from '../upstreams/model-server.ts'
import { OpenAiClient, type ReadLarge } from '../upstreams/openai-client.ts'
import { type CallEvent, ModelRouter } from '../upstreams/router.ts'
import { Simulator } from '../upstreams/simulator.ts'

export function createRouter(
  { settings, access, concurrency, simulated }: Configuration,
  clock: Clock,
  onCall: (call: CallEvent) => void,
  readLarge: ReadLarge,
  log: Log,
): ModelRouter {
  const serverOf = ([name, upstream]: [string, (typeof settings.upstreams)[string]]): ModelServer =>
    simulated
      ? new Simulator(clock)
      : new OpenAiClient({ name, settings: upstream, apiKey: null, ...access.get(name), clock, readLarge })
  const startOf = (name: string, ceiling: number): number | null => {
    const known = simulated ? 'fixed' : concurrency.get(name)
    if (known === 'fixed') return null
    return known === 'explicit' ? ceiling : START_CONCURRENCY
  }
  const upstreams = Object.entries(settings.upstreams).map((entry) => {
    const [name, { max_concurrency: maxConcurrency }] = entry
    const startConcurrency = startOf(name, maxConcurrency)
    return [name, { server: serverOf(entry), maxConcurrency, startConcurrency }] as const
  })
  return new ModelRouter({
    upstreams: new Map(upstreams),
    models: settings.models,
    tiers: tiersOf(settings),
    clock,
    random: Math.random,
    isPatient: settings.jobs.patience_seconds > 0,
    onCall,
    onAvailability: ({ name: target }, trouble) => {
      if (trouble === null) log.info({ target }, 'a model server answers again; jobs that waited for it run')
      else {
        const { kind: reason, status: upstream_status } = trouble
        const message =
          reason === 'misconfigured'
            ? 'jobs wait for a model server that rejects the configuration (key, quota, path or model)'
            : 'jobs wait for a model server'
        log.warn({ target, reason, upstream_status }, message)
      }
    },
    onFailedCall: ({ upstream, model, status, code, connection, timedOut, ms }) =>
      log.warn(
        {
          upstream,
          upstream_model: model,
          upstream_status: status,
          code: timedOut ? 'timeout' : code,
          connection,
          ms: Math.round(ms),
        },
        'call failed',
      ),
  })
}
