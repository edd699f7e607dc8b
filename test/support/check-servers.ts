/** Runs the checks of `parley check` for one model server, without a process. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { modelServerFindings } from '../../src/cli/check/check.ts'
import type { Finding } from '../../src/cli/check/finding.ts'
import { type Clock, systemClock } from '../../src/clock.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import type { Environment } from '../../src/config/settings.ts'
import { type Lifetime, temporaryFolder } from '../parley.ts'

export interface Checked {
  readonly findings: readonly Finding[]
  /** The exit code depends only on model servers here. */
  readonly code: 0 | 1
  /** Each problem has one line, with its fix. */
  readonly wrong: string
  readonly notes: string
}

export interface CheckOptions {
  /** These settings are added to a placeholder key. */
  readonly upstream: Readonly<Record<string, unknown>>
  readonly model?: string
  readonly env?: Environment
  readonly calls?: boolean
  readonly clock?: Clock
  readonly timeoutMs?: number
}

/** The upstream of the model server is named `own`, and the public model is named `small`. */
export async function checkServer(t: Lifetime, options: CheckOptions): Promise<Checked> {
  const { upstream, model = 'tiny', env = {}, calls = false, clock = systemClock, timeoutMs } = options
  const file = join(await temporaryFolder(t), 'parley.config.json')
  const own = { api_key_env: null, ...upstream }
  const models = { small: { targets: [{ upstream: 'own', model }] } }
  writeFileSync(file, JSON.stringify({ upstreams: { own }, models }))
  const configuration = loadConfiguration(env, file)
  const findings: Finding[] = []
  const check = { configuration, env, calls, clock, ...(timeoutMs !== undefined && { timeoutMs }) }
  for await (const found of modelServerFindings(check)) findings.push(...found)
  const shown = (some: readonly Finding[]) =>
    some.map(({ about, says, fix }) => `${about}: ${says} -> ${fix ?? ''}`).join('\n')
  return {
    findings,
    code: findings.every(({ ok }) => ok) ? 0 : 1,
    wrong: shown(findings.filter(({ ok }) => !ok)),
    notes: shown(findings.filter(({ ok, warns }) => ok && warns)),
  }
}
