/** Rules between settings, which their table cannot express. */
import { readNetworks } from '../net/ssrf-guard.ts'
import { databaseProblems } from './database-url.ts'
import type { Settings } from './settings.ts'

/** One sentence each, which starts with the path of the setting. */
export function settingsProblems(settings: Settings): string[] {
  return [
    ...databaseProblems(settings.database),
    ...modelProblems(settings),
    ...tierProblems(settings),
    ...networkProblems('callbacks.allow_networks', settings.callbacks.allow_networks),
    ...networkProblems('trust_proxy', proxiesOf(settings.trust_proxy)),
    ...originProblems(settings.cors.origins),
  ]
}

function modelProblems({ models, upstreams }: Settings): string[] {
  if (Object.keys(models).length === 0) {
    const upstream = Object.keys(upstreams)[0] ?? 'NAME'
    return [
      `models: no models are configured. Add one, such as "models": { "small": { "targets": [{ "upstream": "${upstream}", "model": "…" }] } }`,
    ]
  }
  return Object.entries(models).flatMap(([name, { targets, auto }]) => {
    const path = `models.${name}`
    if ((targets === undefined) === (auto === undefined)) return [`${path}: must have either targets or auto`]
    const unknown = (targets ?? []).filter(({ upstream }) => !Object.hasOwn(upstreams, upstream))
    const wrong = (auto ?? []).filter(({ model }) => models[model]?.targets === undefined)
    return [
      ...unknown.map(({ upstream }) => `${path}.targets: there is no upstream ${upstream}`),
      ...wrong.map(({ model }) => `${path}.auto: ${model} must name a model that has targets`),
    ]
  })
}

function tierProblems({ tiers, models }: Settings): string[] {
  return Object.entries(tiers).flatMap(([name, tier]) => {
    const named = tier.models === 'all' ? [] : tier.models
    return named
      .filter((model) => !Object.hasOwn(models, model))
      .map((model) => `tiers.${name}.models: there is no model ${model}`)
  })
}

function networkProblems(path: string, list: readonly string[]): string[] {
  const read = readNetworks(list)
  return read.ok ? [] : [`${path}: ${read.entry} is not a valid CIDR range, such as 10.0.0.0/8`]
}

function proxiesOf(trust: Settings['trust_proxy']): string[] {
  return typeof trust === 'string' ? trust.split(',').map((entry) => entry.trim()) : []
}

function originProblems(origins: readonly string[]): string[] {
  return origins
    .filter((origin) => origin !== '*' && URL.parse(origin)?.origin !== origin)
    .map((origin) => `cors.origins: ${origin} is not a valid origin, such as https://app.example.com, or "*"`)
}
