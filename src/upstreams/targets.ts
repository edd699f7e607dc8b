/**
 * The routing table: the targets of each public model name, in the order to try them. It is built once from the
 * settings, so that a request only looks up its list.
 */
import type { Clock } from '../clock.ts'
import type { ModelSettings } from '../config/settings.ts'
import type { Tier } from '../job/tier.ts'
import { FairSlots } from '../sharing/fair-slots.ts'
import { CircuitBreaker } from './circuit-breaker.ts'
import { ConcurrencyLimit } from './concurrency-limit.ts'
import type { ModelServer } from './model-server.ts'

/** A model server and the slots for concurrent calls to it. */
export interface Upstream {
  readonly server: ModelServer
  readonly slots: FairSlots
  /** How many slots there are. */
  readonly limit: ConcurrencyLimit
}

/** A model on an upstream. Public models with the same target share its circuit breaker. */
export interface Target {
  /** `upstream/model`. */
  readonly name: string
  readonly upstream: Upstream
  readonly model: string
  readonly health: CircuitBreaker
  /** One slot for jobs whose next failure would be their last, so that only the one that is to blame fails. */
  readonly lastTries: FairSlots
}

/** The targets that a job may be sent to, in the order to try them. */
export interface Candidates {
  /** Identifies them to the queue: the names of the targets, in their order. */
  readonly key: string
  readonly targets: readonly Target[]
}

/** The candidates for inputs larger than the previous range and of at most `upToTokens`. */
interface SizeRange {
  readonly upToTokens: number
  readonly candidates: Candidates
}

/** The targets of one public model, for every tier or, for `gpt-auto`, by tier and size of the input. */
export type Route =
  | { readonly kind: 'fixed'; readonly candidates: Candidates }
  /** Ranges in ascending order; the last one has no upper bound. */
  | { readonly kind: 'auto'; readonly byTier: ReadonlyMap<string, readonly SizeRange[]> }

export interface RoutingTable {
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly targets: readonly Target[]
  /** The parts of all routes, by key. */
  readonly candidates: ReadonlyMap<string, Candidates>
  readonly routes: ReadonlyMap<string, Route>
  /** By the name of the tier. */
  readonly weights: ReadonlyMap<string, number>
}

export interface UpstreamOptions {
  readonly server: ModelServer
  readonly maxConcurrency: number
  /** The initial limit; if absent or null, the limit is always `maxConcurrency`. */
  readonly startConcurrency?: number | null
}

/** The part of a tier that routing depends on. */
export type RoutedTier = Pick<Tier, 'name' | 'models' | 'weight'>

interface Candidate {
  readonly model: string
  readonly upToTokens: number
  readonly targets: readonly Target[]
}

export interface HealthOptions {
  readonly random: () => number
  readonly onChange: (target: Target) => void
}

/** Throws if the settings name an upstream or a candidate that does not exist. */
export function createRoutingTable(
  upstreamOptions: ReadonlyMap<string, UpstreamOptions>,
  models: { readonly [name: string]: ModelSettings },
  tiers: readonly RoutedTier[],
  clock: Clock,
  { random, onChange }: HealthOptions,
): RoutingTable {
  const upstreams = new Map<string, Upstream>()
  for (const [name, { server, maxConcurrency, startConcurrency = null }] of upstreamOptions) {
    const limit = new ConcurrencyLimit(maxConcurrency, startConcurrency)
    upstreams.set(name, { server, limit, slots: new FairSlots(limit) })
  }
  const targets = new Map<string, Target>()
  const targetOf = (upstreamName: string, model: string): Target => {
    const upstream = upstreams.get(upstreamName)
    if (upstream === undefined) throw new Error(`There is no upstream ${upstreamName}.`)
    const name = `${upstreamName}/${model}`
    const known = targets.get(name)
    if (known !== undefined) return known
    const target: Target = {
      name,
      upstream,
      model,
      health: new CircuitBreaker(clock, random, () => onChange(target)),
      lastTries: new FairSlots({ limit: 1, reserve: 0 }),
    }
    targets.set(name, target)
    return target
  }
  const candidates = new Map<string, Candidates>()
  const candidatesOf = (list: readonly Target[]): Candidates => {
    const key = list.map(({ name }) => name).join(' ')
    const known = candidates.get(key) ?? { key, targets: list }
    candidates.set(key, known)
    return known
  }
  const fixed = new Map<string, readonly Target[]>()
  for (const [name, settings] of Object.entries(models)) {
    const list = settings.targets?.map(({ upstream, model }) => targetOf(upstream, model))
    if (list !== undefined) fixed.set(name, list)
  }
  const routes = new Map<string, Route>()
  for (const [name, list] of fixed) {
    routes.set(name, { kind: 'fixed', candidates: candidatesOf(list) })
  }
  for (const [name, settings] of Object.entries(models)) {
    if (settings.auto === undefined || settings.targets !== undefined) continue
    const choices = settings.auto.map((candidate): Candidate => {
      const list = fixed.get(candidate.model)
      if (list === undefined) throw new Error(`Model ${name}: candidate ${candidate.model} has no targets.`)
      const upToTokens = candidate.up_to_tokens ?? Number.POSITIVE_INFINITY
      return { model: candidate.model, upToTokens, targets: list }
    })
    routes.set(name, { kind: 'auto', byTier: autoRanges(choices, tiers, candidatesOf) })
  }
  const weights = new Map(tiers.map(({ name, weight }) => [name, weight]))
  return { upstreams, targets: [...targets.values()], candidates, routes, weights }
}

function autoRanges(
  candidates: readonly Candidate[],
  tiers: readonly RoutedTier[],
  candidatesOf: (targets: readonly Target[]) => Candidates,
): ReadonlyMap<string, readonly SizeRange[]> {
  return new Map(
    tiers.map((tier) => {
      const allowed = candidates.filter(({ model }) => tier.models.has(model))
      const bounds = new Set(allowed.map(({ upToTokens }) => upToTokens)).add(Number.POSITIVE_INFINITY)
      const ranges = [...bounds]
        .sort((a, b) => a - b)
        .map((upToTokens) => ({ upToTokens, candidates: candidatesOf(targetsByFit(allowed, upToTokens)) }))
      return [tier.name, ranges]
    }),
  )
}

/**
 * First the candidates for inputs of this size, in the order of the settings; then the others, largest first, because an
 * answer from a model for smaller inputs is better than none.
 */
function targetsByFit(candidates: readonly Candidate[], inputTokens: number): readonly Target[] {
  const fitting = candidates.filter(({ upToTokens }) => upToTokens >= inputTokens)
  const others = candidates.filter(({ upToTokens }) => upToTokens < inputTokens)
  const inOrder = [...fitting, ...others.sort((a, b) => b.upToTokens - a.upToTokens)]
  return [...new Set(inOrder.flatMap(({ targets }) => targets))]
}
