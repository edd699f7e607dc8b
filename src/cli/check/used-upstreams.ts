/** The upstreams that models use, with their models and the names of the settings that an operator would change. */
import type { Configuration } from '../../config/load.ts'
import { OPENAI } from '../../config/merge.ts'
import type { Environment } from '../../config/settings.ts'
import { PROBE_TIMEOUT_MS } from './probe.ts'
import type { CheckedUpstream } from './upstream.ts'

export function usedUpstreams(
  { settings, access }: Configuration,
  env: Environment,
  timeoutMs = PROBE_TIMEOUT_MS,
): CheckedUpstream[] {
  const { upstreams, models } = settings
  return Object.entries(upstreams).flatMap(([name, upstream]): CheckedUpstream[] => {
    const ownAccess = access.get(name)
    const isOpenai = name === OPENAI
    const used = new Map<string, string>()
    for (const [publicName, { targets = [] }] of Object.entries(models)) {
      const setting = isOpenai && env.OPENAI_MODEL ? 'OPENAI_MODEL' : `models.${publicName}.targets`
      for (const target of targets) {
        if (target.upstream === name && !used.has(target.model)) used.set(target.model, setting)
      }
    }
    if (ownAccess === undefined || used.size === 0) return []
    const baseUrl = isOpenai && env.OPENAI_BASE_URL ? 'OPENAI_BASE_URL' : `upstreams.${name}.base_url`
    const concurrency =
      isOpenai && env.OPENAI_BASE_URL ? 'OPENAI_MAX_CONCURRENCY' : `upstreams.${name}.max_concurrency`
    const names = { baseUrl, caFile: `upstreams.${name}.ca_file`, concurrency }
    return [{ name, settings: upstream, access: ownAccess, models: used, names, timeoutMs }]
  })
}
