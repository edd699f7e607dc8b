/**
 * Implements the roles setting `auto`: sends conversations as `merged_system`, or as `no_system` if the server accepts only
 * that.
 *
 * No server reports which chat template it applies, so this class learns it from responses. If a server rejects a conversation
 * without a schema as `merged_system` and then answers it as `no_system`, its template rejects such conversations. This is
 * remembered for each model for less than an hour and then tested again. Accepted conversations are remembered, too, so that an
 * occasional failure for another reason does not count as a rejection.
 */
import type { Clock } from '../clock.ts'
import type { SentRoles } from './arrange-messages.ts'
import type { JsonMode, LearnedRoles, Prompt, RequestFormat, UpstreamError } from './model-server.ts'

export const REMEMBERED_MS = 50 * 60_000
/** After a template has accepted a kind of conversation, rejections of that kind are ignored for this long. */
export const ACCEPTED_MS = 10 * 60_000

/** Servers return these statuses if a template rejects a conversation. */
const REJECTIONS: readonly number[] = [400, 422, 500]

/** If the rejected request contained a schema, the schema may be the reason instead of the roles. */
const SCHEMAS: readonly (JsonMode | undefined)[] = ['json_schema', 'json_schema_strict']

/** Texts of messages cannot contain this, because their quotes are escaped. */
const ROLE = '"role":"'

export interface Shape {
  readonly hasSystem: boolean
  /** This is true if user and assistant alternate, starting with the user, after at most one system message. */
  readonly isRegular: boolean
  readonly endsWithAssistant: boolean
}

/** Describes a conversation as it would be sent as `merged_system`. Parley's instruction counts as a system message. */
export function shapeOf(messagesJson: string, hasInstruction: boolean): Shape {
  let hasSystem = hasInstruction
  let isRegular = true
  let turns = 0
  let letter = ''
  for (let at = messagesJson.indexOf(ROLE); at !== -1; at = messagesJson.indexOf(ROLE, at + ROLE.length)) {
    letter = messagesJson.charAt(at + ROLE.length)
    if (letter === 's' || letter === 'd') {
      hasSystem = true
      if (turns > 0) isRegular = false
    } else if ((letter === 'u') !== (turns++ % 2 === 0)) isRegular = false
  }
  return { hasSystem, isRegular, endsWithAssistant: letter === 'a' }
}

/** Both times are on the steady clock. */
interface Known {
  acceptedAtMs: number | null
  rejectedUntilMs: number | null
}

/**
 * A `regular` conversation has a system message and alternates. An `irregular` one does not alternate, or has later system
 * messages.
 */
interface KnownModel {
  readonly regular: Known
  readonly irregular: Known
}

export class AutomaticRoles {
  readonly #clock: Clock
  readonly #models = new Map<string, KnownModel>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns the roles to try first; `native` if the conversation would be the same in all of them. */
  rolesFor(model: string, { messagesJson }: Prompt, hasInstruction: boolean): SentRoles {
    const shape = shapeOf(messagesJson, hasInstruction)
    if (!shape.hasSystem && shape.isRegular) return 'native'
    // Some templates put the system message before the last user message, and silently drop it if the conversation ends with
    // another role.
    if (shape.hasSystem && shape.endsWithAssistant) return 'no_system'
    const known = this.#models.get(model)
    return known !== undefined && this.#isRejected(known, shape) ? 'no_system' : 'merged_system'
  }

  mayBeRejected({ roles }: RequestFormat, error: UpstreamError): boolean {
    return roles === 'merged_system' && REJECTIONS.includes(sentStatus(error))
  }

  /** Records that the server answered a prompt in this format. Do not call this for `native`. */
  answered(
    model: string,
    { messagesJson }: Prompt,
    { roles, instruction, json_mode, other_format }: RequestFormat,
  ): void {
    const { isRegular } = shapeOf(messagesJson, instruction !== undefined)
    const nowMs = this.#clock.steadyMs()
    const known = this.#knownOf(model)[isRegular ? 'regular' : 'irregular']
    if (roles === 'merged_system') {
      known.acceptedAtMs = nowMs
      known.rejectedUntilMs = null
    } else if ((other_format === 'roles' || other_format === 'both') && !SCHEMAS.includes(json_mode)) {
      const wasAccepted = known.acceptedAtMs !== null && nowMs - known.acceptedAtMs < ACCEPTED_MS
      if (!wasAccepted) known.rejectedUntilMs ??= nowMs + REMEMBERED_MS
    }
  }

  learned(model: string): LearnedRoles | null {
    const known = this.#models.get(model)
    if (known === undefined) return null
    const regularMs = this.#leftMs(known.regular)
    const leftMs = regularMs ?? this.#leftMs(known.irregular)
    if (leftMs === null) return null
    return { rejects: regularMs === null ? 'irregular' : 'system', untilMs: this.#clock.nowMs() + leftMs }
  }

  /** A template that rejects system messages in regular conversations rejects them in irregular ones, too. */
  #isRejected({ regular, irregular }: KnownModel, { isRegular }: Shape): boolean {
    return this.#leftMs(regular) !== null || (!isRegular && this.#leftMs(irregular) !== null)
  }

  #leftMs(known: Known): number | null {
    if (known.rejectedUntilMs === null) return null
    const leftMs = known.rejectedUntilMs - this.#clock.steadyMs()
    if (leftMs > 0) return leftMs
    known.rejectedUntilMs = null
    return null
  }

  #knownOf(model: string): KnownModel {
    let known = this.#models.get(model)
    if (known === undefined) {
      known = {
        regular: { acceptedAtMs: null, rejectedUntilMs: null },
        irregular: { acceptedAtMs: null, rejectedUntilMs: null },
      }
      this.#models.set(model, known)
    }
    return known
  }
}

/** Some gateways respond with 200 and put the status of the model server into the code of an error. */
function sentStatus({ status, code }: UpstreamError): number {
  return status !== null && status >= 300 ? status : Number(code)
}

/** Servers other than OpenAI's and Azure's may apply a chat template. Older versions of Azure's API reject `developer`. */
export function defaultRoles({ hostname, pathname }: URL): 'native' | 'developer_as_system' | 'auto' {
  if (/(?:^|\.)api\.openai\.com$/.test(hostname)) return 'native'
  // On this host, Azure also serves models of other vendors, under other paths.
  const isFoundry = hostname.endsWith('.services.ai.azure.com') && pathname.startsWith('/openai')
  const isAzure = /\.(?:openai|cognitiveservices)\.azure\.(?:com|us|cn)$/.test(hostname)
  return isAzure || isFoundry ? 'developer_as_system' : 'auto'
}
