/** Applies OPENAI_MODEL: the model behind the public names, and its own public name. */
import { MODEL_NAME } from '../job/request.ts'
import { isObject, type JsonObject } from './json-object.ts'
import { mapTiers, OPENAI } from './merge.ts'
import type { Environment, Settings } from './settings.ts'

const PUBLIC_NAME = new RegExp(MODEL_NAME)

/**
 * Every target on the upstream `openai` becomes OPENAI_MODEL, and callers may also use its own name. Targets on other
 * upstreams stay, and so does a model of that name that the file defines or removes.
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
  // Without a key, a model that nothing else uses would prevent the start.
  if (!hasAccess && !Object.keys(models).some(usesOpenai)) return mapped
  // A tier that may call this model by another name may also call it by its own.
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
