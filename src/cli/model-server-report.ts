/** What a start prints about its model servers: URL, models, and whether each responds. This costs nothing. */
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
 * Prints a line for each upstream that models use as soon as it has responded or failed, and logs a warning for a failure.
 * Never rejects; resolves when all are printed. Prints nothing after the signal.
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
      const { text, isTrouble } = stateOf(found, upstream)
      const server = `Model server ${name} at ${shown[name]?.base_url}, ${modelsText([...models.keys()])}`
      printLine(printable(`${server}: ${text}`))
      if (isTrouble) log.warn({ upstream: name, why: text }, 'a model server does not respond as expected')
    }),
  )
}

interface State {
  readonly text: string
  /** False if the server responds. Not every server has a list of models, so only `parley check` finds other problems. */
  readonly isTrouble: boolean
}

/** Statuses of proxies whose server is down, and of servers that are still loading a model. */
const DOWN: readonly number[] = [502, 503, 504]

function stateOf(
  { listed, trouble }: Awaited<ReturnType<typeof reach>>,
  { settings }: CheckedUpstream,
): State {
  const is = (text: string) => ({ text: `it ${text}; run \`parley check\``, isTrouble: true })
  if (trouble !== null) return is(trouble.says)
  if (listed.kind === 'failed') return is(`cannot be reached (${listed.code})`)
  const { status } = listed
  if (status === 401 || status === 403) {
    const { api_key_env } = settings
    const rejected = api_key_env === null ? 'requests without an API key' : `the key in ${api_key_env}`
    return is(`rejects ${rejected} (HTTP ${status})`)
  }
  if (DOWN.includes(status)) return is(`fails with HTTP ${status}`)
  const more = status < 300 ? '' : ` (HTTP ${status} to GET /models)`
  return { text: `it answers${more}`, isTrouble: false }
}

function modelsText(models: readonly string[]): string {
  const shown = models.slice(0, SHOWN_MODELS).join(', ')
  const more = models.length - SHOWN_MODELS
  return `${models.length === 1 ? 'model' : 'models'} ${shown}${more > 0 ? ` and ${more} more` : ''}`
}
