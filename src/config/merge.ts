/**
 * Merges the configuration file into the defaults. In `models` and `upstreams`, null removes a default entry and the default
 * entries that depend on it. Entries of the file that depend on a removed one stay, and are reported as errors. Also applies
 * OPENAI_MODEL.
 */
import { MODEL_NAME } from '../job/request.ts'
import { isObject, type JsonObject } from '../json-object.ts'
import {
  DEFAULTS,
  type Environment,
  type Settings,
  type TierSettings,
  UPSTREAM_DEFAULTS,
} from './settings.ts'

/** The `OPENAI_` variables configure this upstream of the defaults. */
export const OPENAI = 'openai'

/** Merges objects key by key, but replaces arrays, and entries of `models`. `UPSTREAM_DEFAULTS` completes each upstream. */
export function merge(defaults: Settings, given: JsonObject): JsonObject {
  const merged: Record<string, unknown> = mergeObjects(defaults, given)
  if (isObject(given.upstreams)) {
    const named = Object.entries(given.upstreams).map(([name, upstream]) => [
      name,
      isObject(upstream) ? { ...UPSTREAM_DEFAULTS, ...upstream } : upstream,
    ])
    merged.upstreams = withoutRemoved(
      { ...defaults.upstreams, ...Object.fromEntries(named) },
      defaults.upstreams,
    )
  }
  if (isObject(given.models)) {
    merged.models = withoutRemoved({ ...defaults.models, ...given.models }, defaults.models)
  }
  if (isObject(merged.tiers)) merged.tiers = withBases(merged.tiers, defaults.tiers)
  return merged
}

/** A custom tier gets missing values from the tier in `based_on`. */
function withBases(tiers: JsonObject, defaults: Settings['tiers']): JsonObject {
  const complete = Object.entries(tiers).map(([name, tier]) => {
    if (Object.hasOwn(defaults, name) || !isObject(tier)) return [name, tier]
    const { based_on: base } = tier
    const known = typeof base === 'string' && Object.hasOwn(defaults, base) && isObject(tiers[base])
    return [name, { ...(known ? (tiers[base] as JsonObject) : defaults.user_free), ...tier }]
  })
  return Object.fromEntries(complete)
}

function mergeObjects(defaults: object, given: JsonObject): Record<string, unknown> {
  const merged: Record<string, unknown> = { ...defaults }
  for (const [key, value] of Object.entries(given)) {
    const base = Object.hasOwn(merged, key) ? merged[key] : undefined
    merged[key] = isObject(base) && isObject(value) ? mergeObjects(base, value) : value
  }
  return merged
}

/** Removes entries that are null. A null for an unknown name stays, and is rejected as invalid. */
function withoutRemoved(entries: JsonObject, defaults: object): JsonObject {
  const kept = Object.entries(entries).filter(
    ([name, value]) => value !== null || !Object.hasOwn(defaults, name),
  )
  return Object.fromEntries(kept)
}

/**
 * Removes default entries that depend on a removed one: models with targets on that upstream, candidates of `auto`, and models
 * of tiers.
 * @param openai whether the upstream `openai` counts as configured if the file does not mention it
 */
export function withoutUnusableDefaults(settings: Settings, given: JsonObject, openai: boolean): Settings {
  const { [OPENAI]: defaultUpstream, ...others } = settings.upstreams
  const keepsOpenai = openai || isNamed(given, 'upstreams', OPENAI) || targetsOpenai(given)
  const upstreams = keepsOpenai || !defaultUpstream ? settings.upstreams : others
  const isDefault = (name: string) => Object.hasOwn(DEFAULTS.models, name) && !isNamed(given, 'models', name)
  const usable = Object.entries(settings.models).filter(
    ([name, { targets }]) =>
      !isDefault(name) || (targets ?? []).every(({ upstream }) => Object.hasOwn(upstreams, upstream)),
  )
  const withTargets = new Set(usable.flatMap(([name, { targets }]) => (targets ? [name] : [])))
  const models = usable.flatMap(([name, model]): typeof usable => {
    if (!isDefault(name) || !model.auto) return [[name, model]]
    const auto = model.auto.filter((candidate) => withTargets.has(candidate.model))
    return auto.length === 0 ? [] : [[name, { ...model, auto }]]
  })
  const kept = { ...settings, upstreams, models: Object.fromEntries(models) }
  return { ...kept, tiers: usableTiers(kept, given) }
}

function usableTiers({ tiers, models }: Settings, given: JsonObject): Settings['tiers'] {
  return mapTiers(tiers, (tier, name) => {
    const named = isObject(given.tiers) ? given.tiers[name] : undefined
    if (tier.models === 'all' || (isObject(named) && named.models !== undefined)) return tier
    return { ...tier, models: tier.models.filter((model) => Object.hasOwn(models, model)) }
  })
}

function mapTiers(
  tiers: Settings['tiers'],
  change: (tier: TierSettings, name: string) => TierSettings,
): Settings['tiers'] {
  const changed = Object.entries(tiers).map(([name, tier]) => [name, change(tier, name)])
  return Object.fromEntries(changed)
}

function isNamed(given: JsonObject, key: 'upstreams' | 'models', name: string): boolean {
  const entries = given[key]
  return isObject(entries) && isObject(entries[name])
}

function targetsOpenai({ models }: JsonObject): boolean {
  const targets = Object.values(isObject(models) ? models : {}).flatMap((model) =>
    isObject(model) && Array.isArray(model.targets) ? model.targets : [],
  )
  return targets.some((target) => isObject(target) && target.upstream === OPENAI)
}

const PUBLIC_NAME = new RegExp(MODEL_NAME)

/**
 * Replaces the model of all targets on the upstream `openai` by OPENAI_MODEL, and adds a public model with its name. None is
 * added if the name is defined already, removed by the file or not valid for a public model.
 * @param keyless upstreams that need no key
 */
export function withOpenAiModel(
  settings: Settings,
  given: JsonObject,
  env: Environment,
  keyless: ReadonlySet<string>,
): Settings {
  const model = env.OPENAI_MODEL
  if (!model) return settings
  const models = mapTargets(settings.models, model)
  const mapped = { ...settings, models }
  const upstream = settings.upstreams[OPENAI]
  const isDefined =
    Object.hasOwn(models, model) || (isObject(given.models) && Object.hasOwn(given.models, model))
  if (!upstream || isDefined || !PUBLIC_NAME.test(model)) return mapped
  const usesOpenai = (name: string) =>
    (models[name]?.targets ?? []).some((target) => target.upstream === OPENAI)
  const { api_key_env } = upstream
  const hasAccess = api_key_env === null || env[api_key_env] || keyless.has(OPENAI)
  // Without a key, the added model would prevent the start even if no other model uses the upstream.
  if (!hasAccess && !Object.keys(models).some(usesOpenai)) return mapped
  // A tier that may use OPENAI_MODEL under another name may also use the model's own name.
  const mayUse = (name: string) =>
    usesOpenai(name) || (models[name]?.auto ?? []).some((candidate) => usesOpenai(candidate.model))
  return {
    ...mapped,
    models: { ...models, [model]: { targets: [{ upstream: OPENAI, model }] } },
    tiers: mapTiers(settings.tiers, (tier) =>
      tier.models !== 'all' && tier.models.some(mayUse) ? { ...tier, models: [...tier.models, model] } : tier,
    ),
  }
}

function mapTargets(models: Settings['models'], model: string): Settings['models'] {
  return Object.fromEntries(
    Object.entries(models).map(([name, { targets, ...rest }]) => {
      if (targets === undefined) return [name, rest]
      const mapped = targets.map((target) => (target.upstream === OPENAI ? { ...target, model } : target))
      return [name, { ...rest, targets: mapped }]
    }),
  )
}
