/**
 * Checks one upstream without cost: whether it responds, the path is right, the key is accepted, and the models exist. It sends
 * `GET /models` and an invalid completion request; if the server has no list of models, such a request for each model. If the
 * path is wrong, it tries other paths.
 */
import type { Configuration } from '../../config/load.ts'
import { OPENAI } from '../../config/merge.ts'
import type { Environment, UpstreamSettings } from '../../config/settings.ts'
import type { UpstreamAccess } from '../../config/upstream-access.ts'
import { endpointUrl } from '../../upstreams/build-request.ts'
import { type Mask, maskFor } from '../../upstreams/mask.ts'
import type { Finding } from './finding.ts'
import {
  invalidRequest,
  lists,
  type ModelList,
  messageOf,
  modelListOf,
  namesMistake,
  PROBE_TIMEOUT_MS,
  type Probed,
  type ProbeOptions,
  probe,
  type Response,
  type Verdict,
  verdictOf,
} from './probe.ts'
import { type Diagnosis, diagnose, type SettingNames, schemeDiagnosis } from './unreachable.ts'

const AGENT = 'parley-check'

export interface CheckedUpstream {
  readonly name: string
  readonly settings: UpstreamSettings
  readonly access: UpstreamAccess
  /** Maps each model of the upstream's targets to the name of the setting that contains the model. */
  readonly models: ReadonlyMap<string, string>
  readonly names: SettingNames
  readonly timeoutMs: number
}

/** Sends `GET /models`. `trouble` explains why a server does not respond. */
export async function reach(
  { settings, access, names, timeoutMs }: CheckedUpstream,
  agent: ProbeOptions['agent'],
  signal?: AbortSignal,
): Promise<{ readonly listed: Probed; readonly trouble: Diagnosis | null }> {
  const url = endpointUrl(settings.base_url, '/models', access.query)
  const options = { access, timeoutMs, agent, ...(signal && { signal }) }
  const listed = await probe(url, options)
  if (signal?.aborted) return { listed, trouble: null }
  if (listed.kind === 'failed') return { listed, trouble: await diagnose(url, listed, options, names) }
  // A proxy responds with 400 to plain HTTP on its TLS port.
  const isScheme = listed.status === 400 && url.protocol === 'http:'
  return { listed, trouble: isScheme ? await schemeDiagnosis(url, options, names) : null }
}

export async function checkUpstream(upstream: CheckedUpstream): Promise<Finding[]> {
  const { settings, names } = upstream
  const complete = /^(.*?)\/(?:chat\/completions|completions|models|responses)\/*$/.exec(
    new URL(settings.base_url).pathname,
  )
  if (complete !== null) {
    const path = complete[0]
    const fix = `remove this, so that ${names.baseUrl} ends in ${complete[1] || 'the host'}`
    return [
      wrong(upstream, 'reachable', {
        says: `the URL ends in ${path}, but Parley appends the endpoint itself`,
        fix,
      }),
    ]
  }
  const { listed, trouble } = await reach(upstream, AGENT)
  if (listed.kind === 'failed' || trouble !== null) {
    return [
      wrong(upstream, 'reachable', trouble ?? { says: 'cannot be reached', fix: `correct ${names.baseUrl}` }),
    ]
  }
  return new UpstreamCheck(upstream, listed).findings()
}

class UpstreamCheck {
  readonly #upstream: CheckedUpstream
  readonly #listed: Response
  readonly #list: ModelList | null
  readonly #mask: Mask

  constructor(upstream: CheckedUpstream, listed: Response) {
    this.#upstream = upstream
    this.#listed = listed
    // Azure OpenAI lists the models of a region, but requests name deployments. The list is therefore not used.
    const isAzure = /\.azure\.com$/.test(new URL(upstream.settings.base_url).hostname)
    this.#list = isAzure ? null : modelListOf(listed)
    this.#mask = maskFor(upstream.access.secrets)
  }

  async findings(): Promise<Finding[]> {
    if (this.#listed.status >= 300 && this.#listed.status < 400) return [this.#redirected()]
    const listVerdict = this.#list === null ? verdictOf(this.#listed) : 'accepted'
    if (listVerdict === 'key rejected') return [this.#keyRejected(this.#listed)]
    if (listVerdict === 'failing') return [this.#failing(this.#listed, 'GET /models')]
    const [firstModel = ''] = this.#upstream.models.keys()
    const completed = await this.#tryInvalid(firstModel)
    if (completed.kind === 'failed') {
      const says = `answers GET /models, but not POST /chat/completions (${completed.code})`
      const isSlow = completed.fault === 'timeout'
      return [this.#wrong('reachable', says, isSlow ? 'wait until the server is less busy' : undefined)]
    }
    const verdict = verdictOf(completed)
    const stop = await this.#stopAt(verdict, completed)
    if (stop !== null) return [stop]
    // Two 5xx responses mean that the server is failing. Some servers, such as llama.cpp and Portkey's gateway, respond with
    // 500 to invalid messages, so those do not count.
    if (this.#listed.status >= 500 && completed.status >= 500 && !namesMistake(completed)) {
      return [this.#failing(this.#listed, 'GET /models')]
    }
    // The message may explain what is missing, such as a header of a gateway.
    if (this.#listed.status === 400) return [this.#listRejected()]
    return [
      this.#reachable(completed),
      this.#keyAccepted(),
      ...(await this.#modelFindings(firstModel, verdict)),
    ]
  }

  /** Returns a finding if nothing else of this upstream can be checked, and null if the check continues. */
  async #stopAt(verdict: Verdict, completed: Response): Promise<Finding | null> {
    switch (verdict) {
      case 'key rejected':
        return this.#keyRejected(completed)
      case 'no credit':
        return this.#wrong(
          'key',
          `rejects requests because the account has no credit left (HTTP ${completed.status})${this.#quote(completed)}`,
          'add credit to the account of this key, or use another key',
        )
      case 'failing':
        return this.#failing(completed, 'POST /chat/completions')
      case 'not found':
      case 'foreign':
        return this.#pathWrong(completed)
      case 'accepted':
      case 'model unknown':
        return null
    }
  }

  #tryInvalid(model: string): Promise<Probed> {
    const { settings, access, timeoutMs } = this.#upstream
    const url = endpointUrl(settings.base_url, '/chat/completions', access.query)
    return probe(url, { access, timeoutMs, agent: AGENT, body: invalidRequest(model) })
  }

  #reachable(completed: Response): Finding {
    const { status, ms } = this.#listed
    const says = `responds (HTTP ${status} to GET /models) in ${Math.round(ms)} ms`
    if (this.#list !== null) {
      const lenient = completed.status < 300 && !('error' in Object(completed.json))
      const more = lenient ? '; it even answers a request without messages' : ''
      return { ...this.#found('reachable', says + more), ...(lenient && { warns: true }) }
    }
    const note = `${says}; the response is not a list of models`
    return { ...this.#found('reachable', note), warns: true }
  }

  #keyAccepted(): Finding {
    const { settings, access } = this.#upstream
    if (access.apiKey !== null) return this.#found('key', `accepts the API key in ${settings.api_key_env}`)
    const hasHeaders = Object.keys(access.headers).length > 0
    return this.#found('key', hasHeaders ? 'accepts the headers, without an API key' : 'requires no API key')
  }

  #keyRejected(response: Response): Finding {
    const { access, settings, name } = this.#upstream
    const quoted = `(HTTP ${response.status})${this.#quote(response)}`
    if (access.apiKey !== null) {
      return this.#wrong(
        'key',
        `rejects the API key ${quoted}`,
        `set ${settings.api_key_env} to a valid key of this server`,
      )
    }
    if (Object.keys(access.headers).length > 0) {
      return this.#wrong('key', `rejects the headers ${quoted}`, `correct upstreams.${name}.headers`)
    }
    const variable = settings.api_key_env ?? 'OPENAI_API_KEY'
    const fix =
      settings.api_key_env === null
        ? `set upstreams.${name}.api_key_env to the name of the environment variable with the key`
        : `set ${variable} to a key of this server`
    return this.#wrong('key', `requires an API key ${quoted}`, fix)
  }

  #failing(response: Response, asked: string): Finding {
    return this.#wrong(
      'reachable',
      `fails with HTTP ${response.status} to ${asked}${this.#quote(response)}`,
      'wait until the server is ready, or look at its log',
    )
  }

  #redirected(): Finding {
    const { status, location } = this.#listed
    const { settings, names } = this.#upstream
    const target = location === null ? null : URL.parse(location, settings.base_url)
    const says = `redirects to ${target?.host ?? 'another address'} (HTTP ${status}), which calls do not follow`
    const base =
      target === null
        ? 'the address it redirects to'
        : target.origin + target.pathname.replace(/\/models\/?$/, '')
    return this.#wrong('reachable', says, `set ${names.baseUrl} to ${base}`)
  }

  #listRejected(): Finding {
    const { name, names } = this.#upstream
    return this.#wrong(
      'reachable',
      `rejects GET /models (HTTP 400)${this.#quote(this.#listed)}`,
      `see the message of the server: a header may be missing in upstreams.${name}.headers, a parameter in upstreams.${name}.query, or ${names.baseUrl} is wrong`,
    )
  }

  async #pathWrong(completed: Response): Promise<Finding> {
    const { name, settings, access, names } = this.#upstream
    const { pathname, searchParams } = endpointUrl(settings.base_url, '/chat/completions', access.query)
    const says = `has no chat completions at this path: HTTP ${completed.status} to POST ${pathname}${this.#quote(completed)}`
    if (pathname.startsWith('/openai/deployments/') && !searchParams.has('api-version')) {
      return this.#wrong(
        'reachable',
        says,
        `set upstreams.${name}.query to { "api-version": "…" }, as Azure OpenAI requires`,
      )
    }
    const better = await this.#betterBase()
    const fix =
      better === null
        ? `set ${names.baseUrl} to the URL in the documentation of the server, without /chat/completions; it often ends in /v1`
        : `set ${names.baseUrl} to ${better}, where the server lists its models`
    return this.#wrong('reachable', says, fix)
  }

  async #betterBase(): Promise<string | null> {
    const { settings, access, timeoutMs } = this.#upstream
    const { origin, pathname } = new URL(settings.base_url)
    const own = pathname.replace(/\/+$/, '')
    const paths = new Set([`${own}/v1`, '/v1', '', '/api/v1', '/openai/v1', '/v1beta/openai'])
    paths.delete(own)
    const found = await Promise.all(
      [...paths].map(async (path) => {
        const url = endpointUrl(`${origin}${path}`, '/models', access.query)
        const response = await probe(url, { access, timeoutMs, agent: AGENT })
        return response.kind === 'response' && modelListOf(response) !== null ? `${origin}${path}` : null
      }),
    )
    return found.find((base) => base !== null) ?? null
  }

  async #modelFindings(firstModel: string, firstVerdict: Verdict): Promise<Finding[]> {
    const findings: Finding[] = []
    for (const [model, setting] of this.#upstream.models) {
      const isUnknown =
        this.#list === null
          ? (model === firstModel ? firstVerdict : await this.#verdictOf(model)) === 'model unknown'
          : !(await this.#hasModel(this.#list, model))
      findings.push(this.#modelFinding(model, setting, isUnknown))
    }
    return findings
  }

  async #verdictOf(model: string): Promise<Verdict> {
    const completed = await this.#tryInvalid(model)
    return completed.kind === 'failed' ? 'failing' : verdictOf(completed)
  }

  /** Lists may have pages or omit models, so a model that is not listed is also requested alone. */
  async #hasModel(list: ModelList, model: string): Promise<boolean> {
    if (lists(list, model)) return true
    const { settings, access, timeoutMs } = this.#upstream
    const url = endpointUrl(settings.base_url, '/models', access.query)
    url.pathname += `/${encodeURIComponent(model)}`
    const response = await probe(url, { access, timeoutMs, agent: AGENT })
    if (response.kind === 'failed' || response.status !== 200) return false
    const { json } = response
    return typeof json === 'object' && json !== null && 'id' in json && json.id === model
  }

  #modelFinding(model: string, setting: string, isUnknown: boolean): Finding {
    const about = `target ${this.#upstream.name}/${model}`
    const list = this.#list
    if (!isUnknown) {
      const says =
        list === null ? 'cannot be verified: the server has no list of models' : 'the server lists this model'
      return { ok: true, ...(list === null && { warns: true }), about, check: 'model', says }
    }
    const has = list === null || list.ids.length === 0 ? '' : `; it has ${someOf(list.ids)}`
    if (list?.ignoresNames) {
      const says = `the server does not list this model${has}. It accepts every model name`
      return { ok: true, warns: true, about, check: 'model', says }
    }
    const fix = `set ${setting} to a model of the server, or load this model there`
    return { ok: false, about, check: 'model', says: `the server does not have this model${has}`, fix }
  }

  #quote(response: Response): string {
    const message = messageOf(response, this.#mask)
    return message === null ? '' : `: ${message}`
  }

  #found(check: Finding['check'] & string, says: string): Finding {
    return { ok: true, about: `upstream ${this.#upstream.name}`, check, says }
  }

  #wrong(check: Finding['check'] & string, says: string, fix?: string): Finding {
    return wrong(this.#upstream, check, { says, fix: fix ?? `correct ${this.#upstream.names.baseUrl}` })
  }
}

function wrong(
  { name }: CheckedUpstream,
  check: Finding['check'] & string,
  { says, fix }: Diagnosis,
): Finding {
  return { ok: false, about: `upstream ${name}`, check, says, fix }
}

const SHOWN_MODELS = 10

function someOf(ids: readonly string[]): string {
  const shown = ids.slice(0, SHOWN_MODELS).map((id) => id.slice(0, 100))
  const more = ids.length - shown.length
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ')
}

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
