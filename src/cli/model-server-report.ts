/** What a start prints about its model servers: address, models, and whether each answers. It pays for nothing. */
import type { Configuration } from '../config/load.ts'
import { maskedSettings } from '../config/masked.ts'
import type { Environment } from '../config/settings.ts'
import type { Log } from '../telemetry/log.ts'
import type { CheckedUpstream } from './check/upstream.ts'
import { reach } from './check/upstream.ts'
import { usedUpstreams } from './check/used-upstreams.ts'
import { printLine } from './output.ts'
import { printable } from './printable.ts'

const SHOWN_MODELS = 5

/**
 * Prints a line for each upstream that models use as soon as it has answered or failed, and logs a warning for one that
 * failed. Never rejects; resolves when all are printed. After the signal nothing is printed.
 */
export async function reportModelServers(
  configuration: Configuration,
  env: Environment,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  if (configuration.simulated) return
  const shown = maskedSettings(configuration.settings).upstreams
  await Promise.all(
    usedUpstreams(configuration, env).map(async (upstream) => {
      const found = await reach(upstream, 'parley-start', signal)
      if (signal.aborted) return
      const { name, models } = upstream
      const trouble = troubleOf(found, upstream)
      const server = `Model server ${name} at ${shown[name]?.base_url}, ${modelsText([...models.keys()])}`
      printLine(printable(`${server}: ${trouble ?? 'it answers'}`))
      if (trouble !== null)
        log.warn({ upstream: name, why: trouble }, 'a model server does not answer as it should')
    }),
  )
}

/** Null if the server answers. The rest is found by `parley check`. */
function troubleOf(
  { listed, trouble }: Awaited<ReturnType<typeof reach>>,
  { settings }: CheckedUpstream,
): string | null {
  const advice = 'run `parley check`'
  if (trouble !== null) return `it ${trouble.says}; ${advice}`
  if (listed.kind === 'failed') return `it cannot be reached (${listed.code}); ${advice}`
  const { status } = listed
  if (status === 401 || status === 403) {
    const key =
      settings.api_key_env === null ? 'requests without an API key' : `the key in ${settings.api_key_env}`
    return `it rejects ${key} (HTTP ${status}); ${advice}`
  }
  return status < 300 ? null : `it answers HTTP ${status} to GET /models; ${advice}`
}

function modelsText(models: readonly string[]): string {
  const shown = models.slice(0, SHOWN_MODELS).join(', ')
  const more = models.length - SHOWN_MODELS
  return `${models.length === 1 ? 'model' : 'models'} ${shown}${more > 0 ? ` and ${more} more` : ''}`
}
