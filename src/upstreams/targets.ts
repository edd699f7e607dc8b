/** Which targets a question may be put to, and in which order: from the `models` settings, once, at the start. */
import type { Clock } from '../clock.ts'
import type { ModelSettings } from '../config/settings.ts'
import { CircuitBreaker } from './circuit-breaker.ts'
import type { ModelServer, Question } from './model-server.ts'
import { Semaphore } from './semaphore.ts'

/** A model server and the calls it may have under way. */
export interface Upstream {
  readonly server: ModelServer
  readonly gate: Semaphore
}

/** A place where a model can be had. Public models that share a target share what is known of its health. */
export interface Target {
  /** `upstream/model`. */
  readonly name: string
  readonly upstream: Upstream
  readonly model: string
  readonly breaker: CircuitBreaker
}

interface Candidate {
  readonly model: string
  readonly upToTokens: number
}

export interface UpstreamOptions {
  readonly server: ModelServer
  readonly maxConcurrency: number
}

export class Targets {
  readonly upstreams = new Map<string, Upstream>()
  readonly all = new Map<string, Target>()
  readonly #byModel = new Map<string, readonly Target[]>()
  readonly #candidatesOf = new Map<string, readonly Candidate[]>()

  /** Throws where the settings name an upstream or a candidate that is not there. */
  constructor(
    upstreams: ReadonlyMap<string, UpstreamOptions>,
    models: { readonly [name: string]: ModelSettings },
    clock: Clock,
  ) {
    for (const [name, { server, maxConcurrency }] of upstreams) {
      this.upstreams.set(name, { server, gate: new Semaphore(maxConcurrency) })
    }
    for (const [name, settings] of Object.entries(models)) {
      const targets = settings.targets?.map(({ upstream, model }) => this.#target(upstream, model, clock))
      if (targets !== undefined) this.#byModel.set(name, targets)
    }
    for (const [name, settings] of Object.entries(models)) {
      if (settings.auto === undefined || settings.targets !== undefined) continue
      const candidates = settings.auto.map((candidate) => ({
        model: candidate.model,
        upToTokens: candidate.up_to_tokens ?? Number.POSITIVE_INFINITY,
      }))
      const missing = candidates.find((candidate) => !this.#byModel.has(candidate.model))
      if (missing !== undefined) throw new Error(`Model ${name}: candidate ${missing.model} has no targets.`)
      this.#candidatesOf.set(name, candidates)
    }
  }

  /** The question's targets in the order to try them; none where the model is not, or no longer, to be had. */
  of(question: Question): readonly Target[] {
    const targets = this.#byModel.get(question.model)
    if (targets !== undefined) return targets
    const candidates = this.#candidatesOf.get(question.model) ?? []
    const inOrder = inOrderOfFit(
      candidates.filter((candidate) => question.allowed(candidate.model)),
      question.inputTokens,
    )
    const found = new Set<Target>()
    for (const candidate of inOrder) {
      for (const target of this.#byModel.get(candidate.model) ?? []) found.add(target)
    }
    return [...found]
  }

  #target(upstreamName: string, model: string, clock: Clock): Target {
    const upstream = this.upstreams.get(upstreamName)
    if (upstream === undefined) throw new Error(`There is no upstream ${upstreamName}.`)
    const name = `${upstreamName}/${model}`
    let target = this.all.get(name)
    if (target === undefined) {
      target = { name, upstream, model, breaker: new CircuitBreaker(clock) }
      this.all.set(name, target)
    }
    return target
  }
}

/**
 * First the candidates made for that size, in the order of the settings; then the others, the nearest first: a model
 * meant for smaller inputs is a better answer than none.
 */
function inOrderOfFit(candidates: readonly Candidate[], inputTokens: number): readonly Candidate[] {
  const fitting = candidates.filter((candidate) => candidate.upToTokens >= inputTokens)
  const others = candidates.filter((candidate) => candidate.upToTokens < inputTokens)
  return [...fitting, ...others.sort((a, b) => b.upToTokens - a.upToTokens)]
}
