/**
 * Builds the routing table: the targets of each public model name, in order of preference. The table is built once from the
 * settings, so routing a request is a lookup. Also describes the upstreams' state for the dashboard and metrics.
 */
import type { Clock } from '../clock.ts'
import type { ModelSettings } from '../config/settings.ts'
import type { Tier } from '../job/tier.ts'
import { FairSlots } from '../sharing/fair-slots.ts'
import { TargetBreaks } from './breaks.ts'
import { ConcurrencyLimit } from './concurrency-limit.ts'
import { troubleOf } from './failure-kinds.ts'
import type { LearnedRoles, ModelServer, Trouble } from './model-server.ts'
import { ownBook, Rate, type RateBook } from './rate.ts'
import { TargetHealth } from './target-health.ts'
import { type RateLimits, type TargetRates, targetRates } from './target-rates.ts'

export interface Upstream {
  readonly server: ModelServer
  readonly slots: FairSlots
  readonly limits: ConcurrencyLimit
  /** Before `untilMs` (steady clock), no isolated job may delay the others (breaks.ts). */
  readonly rest: { untilMs: number }
}

/** Public models with the same target share the target's health. */
export interface Target {
  readonly name: string
  readonly upstream: Upstream
  readonly model: string
  readonly health: TargetHealth
  readonly breaks: TargetBreaks
  /** Some jobs must call the target one at a time (`takesTurns` in call-target.ts). */
  readonly alone: FairSlots
  readonly rates: TargetRates | null
}

export interface Candidates {
  /** The key lists the names of the targets in order. The queue identifies routes by it. */
  readonly key: string
  readonly targets: readonly Target[]
  /** These jobs wait on this node for a rate, a slot or their turn at a target. */
  readonly waiting: Set<string>
}

/** The candidates apply to inputs of up to `upToTokens` tokens that are too large for the previous range. */
interface SizeRange {
  readonly upToTokens: number
  readonly candidates: Candidates
}

/** For `gpt-auto`, the targets depend on the tier and the size of the input. */
export type Route =
  | { readonly kind: 'fixed'; readonly candidates: Candidates }
  /** Ranges in ascending order. The last one has no upper bound. */
  | { readonly kind: 'auto'; readonly byTier: ReadonlyMap<string, readonly SizeRange[]> }

export interface RoutingTable {
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly targets: readonly Target[]
  readonly candidates: ReadonlyMap<string, Candidates>
  readonly routes: ReadonlyMap<string, Route>
  readonly weights: ReadonlyMap<string, number>
}

export interface UpstreamOptions {
  readonly server: ModelServer
  readonly maxConcurrency: number
  /** The limit starts at this value. If absent or null, it is always `maxConcurrency`. */
  readonly startConcurrency?: number | null
  readonly rate?: RateLimits
}

export type RoutedTier = Pick<Tier, 'name' | 'models' | 'weight'>

interface Candidate {
  readonly model: string
  readonly upToTokens: number
  readonly targets: readonly Target[]
}

export interface HealthOptions {
  readonly random: () => number
  /** A target calls this when more or fewer of its calls may start than before. */
  readonly onChange: () => void
  /** A target calls this with the reason when its calls no longer succeed, and with null when one succeeds again. */
  readonly onReport: (target: Target, trouble: Trouble | null) => void
  readonly bookOf?: (name: string) => RateBook
}

/** Throws if a target names an upstream that does not exist, or an `auto` list a model without targets. */
export function createRoutingTable(
  upstreamOptions: ReadonlyMap<string, UpstreamOptions>,
  models: { readonly [name: string]: ModelSettings },
  tiers: readonly RoutedTier[],
  clock: Clock,
  { random, onChange, onReport, bookOf = () => ownBook(clock) }: HealthOptions,
): RoutingTable {
  const upstreams = new Map<string, Upstream>()
  for (const [name, { server, maxConcurrency, startConcurrency = null }] of upstreamOptions) {
    const limits = new ConcurrencyLimit(maxConcurrency, startConcurrency)
    upstreams.set(name, { server, limits, slots: new FairSlots(limits), rest: { untilMs: 0 } })
  }
  const ratesOfTarget = targetRates(
    upstreamOptions,
    models,
    (name, limits) => new Rate(limits, bookOf(name), clock),
  )
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
      health: new TargetHealth(clock, random, {
        check: async () => {
          const error = await upstream.server.check()
          if (error === null) target.breaks.answered(null)
          return error && troubleOf(error)
        },
        changed: onChange,
        reported: (trouble) => onReport(target, trouble),
      }),
      breaks: new TargetBreaks(
        clock,
        (isHeld) => {
          upstream.limits.block(isHeld)
          upstream.slots.limitChanged()
        },
        upstream.rest,
      ),
      alone: new FairSlots({ limit: 1, reserve: 0 }),
      rates: ratesOfTarget(upstreamName, model),
    }
    targets.set(name, target)
    return target
  }
  const candidates = new Map<string, Candidates>()
  const candidatesOf = (list: readonly Target[]): Candidates => {
    const key = list.map(({ name }) => name).join(' ')
    const known = candidates.get(key) ?? { key, targets: list, waiting: new Set() }
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
 * The candidates that accept inputs of this size come first, in the configured order. The others follow, largest first, because
 * an answer of a model for smaller inputs is better than none.
 */
function targetsByFit(candidates: readonly Candidate[], inputTokens: number): readonly Target[] {
  const fitting = candidates.filter(({ upToTokens }) => upToTokens >= inputTokens)
  const others = candidates.filter(({ upToTokens }) => upToTokens < inputTokens)
  const inOrder = [...fitting, ...others.sort((a, b) => b.upToTokens - a.upToTokens)]
  return [...new Set(inOrder.flatMap(({ targets }) => targets))]
}

export interface UpstreamState {
  readonly name: string
  readonly running: number
  readonly waiting: number
  /** This many jobs of this node wait for a rate; null if the upstream and its targets have none. */
  readonly waitingForRate: number | null
  readonly limit: number
  readonly maxConcurrency: number
  /** The first of the upstream's targets is checked next at this time (Unix time); null unless all of them are unavailable. */
  readonly openUntilMs: number | null
  readonly targets: readonly TargetState[]
}

export interface TargetState {
  readonly model: string
  readonly consecutiveFailures: number
  /** The target is checked next at this time (Unix time). The value is null unless the target is unavailable. */
  readonly openUntilMs: number | null
  readonly learnedRoles: LearnedRoles | null
  /**
   * Calls have failed since this time (Unix time). The value is null while calls succeed, or if no job has tried the target for
   * long.
   */
  readonly unavailable: { readonly sinceMs: number; readonly trouble: Trouble } | null
  /** This many accounts cannot call the target freely, because their own calls failed. */
  readonly limitedAccounts: number
}

export function upstreamStates({
  upstreams,
  targets,
}: Pick<RoutingTable, 'upstreams' | 'targets'>): UpstreamState[] {
  return [...upstreams].map(([name, upstream]) => {
    const own = targets.filter((target) => target.upstream === upstream)
    const rates = ratesOf(own)
    const states = own.map(({ model, health }) => ({
      model,
      consecutiveFailures: health.all.failedJobs.length,
      openUntilMs: health.reported?.openUntilMs ?? null,
      unavailable: unavailableOf(health),
      limitedAccounts: [...health.accounts.values()].filter(({ phase }) => phase !== 'available').length,
      learnedRoles: upstream.server.learnedRoles(model),
    }))
    return {
      name,
      running: upstream.slots.held.total,
      waiting: upstream.slots.waiting.total,
      waitingForRate: rates.size === 0 ? null : [...rates].reduce((sum, { waiting }) => sum + waiting, 0),
      limit: upstream.limits.found,
      maxConcurrency: upstream.limits.ceiling,
      openUntilMs: earliestIfAll(states.map((target) => target.openUntilMs)),
      targets: states,
    }
  })
}

export function ratesOf(targets: readonly Target[]): ReadonlySet<Rate> {
  return new Set(targets.flatMap(({ rates }) => rates?.rates ?? []))
}

/** A target that no job has tried for this long is no longer shown as unavailable, because no job waits for it. */
const MOST_UNTRIED_MS = 60_000

function unavailableOf({ reported }: TargetHealth): TargetState['unavailable'] {
  if (reported === null || reported.untriedMs > MOST_UNTRIED_MS) return null
  if (reported.unavailableSinceMs === null || reported.trouble === null) return null
  return { sinceMs: reported.unavailableSinceMs, trouble: reported.trouble }
}

function earliestIfAll(times: readonly (number | null)[]): number | null {
  const known = times.filter((time) => time !== null)
  return known.length < times.length ? null : Math.min(...known)
}
