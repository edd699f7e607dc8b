/** `parley check`: checks the configuration and the connections, and reports what is wrong. */
import { request } from 'undici'
import { type Configuration, ConfigurationError, loadConfiguration } from '../config/load.ts'
import { checkDatabase } from '../store/open.ts'
import { printLine } from './output.ts'

const CONNECT_MS = 5000

interface Finding {
  readonly ok: boolean
  /** It works, but could be better. */
  readonly warns?: boolean
  readonly about: string
  readonly says: string
}

/** Returns the exit code: 0 if there is no problem. */
export async function check({ json, config }: { json?: true; config?: string }): Promise<number> {
  const findings = await allFindings(config)
  if (json) printLine(JSON.stringify(findings.map(asJson), null, 2))
  else for (const finding of findings) print(finding)
  return findings.every(({ ok }) => ok) ? 0 : 1
}

async function allFindings(configFile: string | undefined): Promise<Finding[]> {
  const about = 'configuration'
  let configuration: Configuration
  try {
    configuration = loadConfiguration(process.env, configFile)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return error.message.split('\n').map((problem) => ({ ok: false, about, says: problem }))
  }
  return [
    { ok: true, about, says: configuration.file ?? 'no file; defaults and environment variables apply' },
    ...(await databaseFindings(configuration.settings.database)),
    ...(await checkUpstreams(configuration)),
  ]
}

function asJson({ ok, warns = false, about, says }: Finding) {
  return { ok, warns, about, says }
}

function print({ ok, warns, about, says }: Finding): void {
  const mark = ok ? (warns ? 'note ' : 'ok   ') : 'WRONG'
  printLine(`${mark} ${about}: ${says}`)
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

async function checkUpstreams({ settings, access, simulated }: Configuration): Promise<Finding[]> {
  if (simulated) {
    return [{ ok: true, about: 'models', says: 'none is configured, so the built-in simulator answers' }]
  }
  const used = new Set(
    Object.values(settings.models).flatMap((model) => (model.targets ?? []).map((t) => t.upstream)),
  )
  const upstreams = Object.entries(settings.upstreams).filter(([name]) => used.has(name))
  return Promise.all(
    upstreams.map(([name, { base_url }]) => checkUpstream(name, base_url, access.get(name)?.apiKey ?? null)),
  )
}

/** Requests the list of models, which is free and fails with a wrong key. */
async function checkUpstream(name: string, baseUrl: string, key: string | null): Promise<Finding> {
  const about = `upstream ${name}`
  try {
    const { statusCode, body } = await request(`${baseUrl.replace(/\/+$/, '')}/models`, {
      headers: key === null ? {} : { authorization: `Bearer ${key}` },
      headersTimeout: CONNECT_MS,
      bodyTimeout: CONNECT_MS,
      signal: AbortSignal.timeout(CONNECT_MS),
    })
    await body.dump()
    if (statusCode === 401 || statusCode === 403) {
      return { ok: false, about, says: `rejects the API key (HTTP ${statusCode})` }
    }
    return { ok: statusCode < 500, about, says: `responds (HTTP ${statusCode} to GET /models)` }
  } catch (error) {
    const { message, code } = error as Error & { code?: string }
    return { ok: false, about, says: `cannot be reached: ${message || code}` }
  }
}
