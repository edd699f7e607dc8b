/** `parley check` checks the configuration and the connections, and prints what is wrong and how to fix it. */
import { type Clock, systemClock } from '../../clock.ts'
import { ConfigurationError } from '../../config/file.ts'
import { type Configuration, loadConfiguration } from '../../config/load.ts'
import type { Environment } from '../../config/settings.ts'
import { checkDatabase } from '../../store/open.ts'
import { counted, printLine } from '../input-output.ts'
import type { DefaultOptions } from '../options.ts'
import { CALLS_PER_TARGET, type CalledTarget, callTarget } from './calls.ts'
import { asJson, type Finding, printFinding } from './finding.ts'
import { type CheckedUpstream, checkUpstream, usedUpstreams } from './upstream.ts'

export interface CheckOptions extends DefaultOptions {
  readonly calls?: true
}

/** Resolves with the exit code, which is 0 if nothing is wrong. */
export async function check({ json, config, calls }: CheckOptions): Promise<number> {
  const show = json ? () => {} : printFinding
  const findings = await allFindings(config, calls === true, show)
  if (json) printLine(JSON.stringify(findings.map(asJson), null, 2))
  return findings.every(({ ok }) => ok) ? 0 : 1
}

/** @param show called with each finding as soon as it is known */
async function allFindings(
  configFile: string | undefined,
  calls: boolean,
  show: (finding: Finding) => void,
): Promise<Finding[]> {
  const all: Finding[] = []
  const add = (findings: readonly Finding[]) => {
    for (const finding of findings) show(finding)
    all.push(...findings)
  }
  const about = 'configuration'
  let configuration: Configuration
  try {
    configuration = loadConfiguration(process.env, configFile)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    add(error.message.split('\n').map((problem) => ({ ok: false, about, says: problem })))
    return all
  }
  add([{ ok: true, about, says: configuration.file ?? 'no file; defaults and environment variables apply' }])
  add(tierFindings(configuration))
  add(shutdownFindings(configuration))
  add(await databaseFindings(configuration.settings.database))
  const servers = modelServerFindings({ configuration, env: process.env, calls, clock: systemClock })
  for await (const findings of servers) add(findings)
  return all
}

/** Tiers without models reject every job. The default tier user_free has none if the file defines other models. */
function tierFindings({ settings: { tiers } }: Configuration): Finding[] {
  return Object.entries(tiers).flatMap(([name, { models }]): Finding[] =>
    models.length > 0
      ? []
      : [
          {
            ok: true,
            warns: true,
            about: 'configuration',
            says: `accounts of tier ${name} cannot use any model`,
            fix: `list models in tiers.${name}.models, or set it to "all"`,
          },
        ],
  )
}

/**
 * A server is killed if it has not stopped after this time: by default in Kubernetes, and with the systemd unit and the Compose
 * file of this package.
 */
const GRACE_SECONDS = 30
/** After the drain, clients still read their last responses, and the database is closed. */
const CLOSING_SECONDS = 3

function shutdownFindings({ settings: { shutdown, jobs } }: Configuration): Finding[] {
  const total = shutdown.listen_seconds + jobs.drain_seconds + CLOSING_SECONDS
  if (total <= GRACE_SECONDS) return []
  return [
    {
      ok: true,
      warns: true,
      about: 'configuration',
      says: `a shutdown can take ${total} s (shutdown.listen_seconds ${shutdown.listen_seconds}, jobs.drain_seconds ${jobs.drain_seconds}, and ${CLOSING_SECONDS} s to close), longer than the ${GRACE_SECONDS} s after which supervisors usually kill a process`,
      fix: `lower one of the two, or let the supervisor wait longer than ${total} s (terminationGracePeriodSeconds, stop_grace_period, TimeoutStopSec)`,
    },
  ]
}

async function databaseFindings(url: string): Promise<Finding[]> {
  const about = 'database'
  try {
    const { description, problems, warnings } = await checkDatabase(url)
    return [
      { ok: true, about, says: description },
      ...problems.map((problem) => ({ ok: false, about, says: problem })),
      ...warnings.map((warning) => ({ ok: true, warns: true, about, says: warning })),
    ]
  } catch (error) {
    const { message, code } = error as Error & { code?: string }
    return [{ ok: false, about, says: message || String(code) }]
  }
}

export interface ModelServerCheck {
  readonly configuration: Configuration
  readonly env: Environment
  /** If true, paid calls are made. A finding announces their number before the first. */
  readonly calls: boolean
  readonly clock: Clock
  readonly timeoutMs?: number
}

export async function* modelServerFindings(check: ModelServerCheck): AsyncGenerator<readonly Finding[]> {
  const { configuration, env, calls, clock, timeoutMs } = check
  if (configuration.simulated) {
    yield [simulatorFinding(configuration)]
    return
  }
  const upstreams = usedUpstreams(configuration, env, timeoutMs)
  const checked = await Promise.all(upstreams.map(checkUpstream))
  yield checked.flat()
  // Servers that failed the free checks would fail the paid calls for the same reason.
  const sound = upstreams.filter((_upstream, index) => checked[index]?.every(({ ok }) => ok))
  const targets = sound.flatMap(targetsOf)
  if (targets.length === 0) return
  const about = 'calls'
  if (!calls) {
    const says = `no calls were made. \`parley check --calls\` makes ${CALLS_PER_TARGET} paid calls to each of ${counted(targets.length, 'target')} and reports whether it answers, and its support for roles, JSON and concurrency`
    yield [{ ok: true, about, says }]
    return
  }
  const says = `makes ${CALLS_PER_TARGET} paid calls to each of ${counted(targets.length, 'target')}`
  yield [{ ok: true, about, says }]
  // Targets on the same server could slow each other down, so they are called one after the other.
  for (const target of targets) {
    for await (const finding of callTarget(target, clock)) yield [finding]
  }
}

function simulatorFinding({ settings: { simulator } }: Configuration): Finding {
  const isForced = simulator === true
  return {
    ok: true,
    warns: true,
    about: 'models',
    says: isForced
      ? 'the built-in simulator answers every job, because simulator is true; no model server is called or checked'
      : 'none is configured, so the built-in simulator answers',
    fix: isForced
      ? 'for answers of models, remove the setting simulator and PARLEY_SIMULATOR'
      : 'for answers of models, set OPENAI_API_KEY, or OPENAI_BASE_URL for another model server, or add upstreams to the configuration file',
  }
}

function targetsOf({ name, settings, access, models, names }: CheckedUpstream): CalledTarget[] {
  return [...models].map(([model, modelSetting]) => ({
    upstream: name,
    model,
    settings,
    access,
    modelSetting,
    names,
  }))
}
