/**
 * Implements the roles setting `auto`: sends conversations as `merged_system`, or as `no_system` if the server accepts only that.
 * No server reports which chat template it applies, so this learns it: a conversation that is rejected as `merged_system`,
 * without a schema, and then answered as `no_system` shows what the template rejects. That is remembered per model for less than
 * an hour, then tested again. What a template accepts is remembered, too, so that a server that sometimes fails for other reasons
 * is not taken for one that rejects system messages.
 */
import type { Clock } from '../clock.ts'
import type { SentRoles } from './arrange-messages.ts'
import type { JsonMode, LearnedRoles, Prompt, RequestFormat, UpstreamError } from './model-server.ts'

export const REMEMBERED_MS = 50 * 60_000
/** For this long after a template accepted a kind of conversation, a single rejection of that kind is not remembered. */
export const ACCEPTED_MS = 10 * 60_000

/** The statuses that servers return if a template rejects a conversation. */
const REJECTIONS: readonly number[] = [400, 422, 500]

/** If the rejected request contained a schema, the rejection shows nothing about roles. */
const SCHEMAS: readonly (JsonMode | undefined)[] = ['json_schema', 'json_schema_strict']

/** No text of a message can contain this, because its quotes are escaped. */
const ROLE = '"role":"'

/** What a conversation requires of a chat template when it is sent as `merged_system`. */
export interface Shape {
  /** Whether it has system messages. */
  readonly hasSystem: boolean
  /** Whether user and assistant alternate, starting with the user, after at most one system message. */
  readonly isRegular: boolean
  readonly endsWithAssistant: boolean
}

/** @param hasInstruction whether Parley adds an instruction */
export function shapeOf(messagesJson: string, hasInstruction: boolean): Shape {
  let hasSystem = hasInstruction
  let isRegular = true
  let turns = 0
  /** The first letter of the role. */
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

/** The facts about one kind of conversation, with times on the steady clock. */
interface Known {
  acceptedAtMs: number | null
  rejectedUntilMs: number | null
}

/** `regular` conversations have a system message; `irregular` ones break the alternation. All templates accept the others. */
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

  /** The roles to try first; `native` if the prompt is the same in all of them. */
  rolesFor(model: string, { messagesJson }: Prompt, hasInstruction: boolean): SentRoles {
    const shape = shapeOf(messagesJson, hasInstruction)
    if (!shape.hasSystem && shape.isRegular) return 'native'
    // Some templates put the system message before the last user message, and drop it if the conversation does not end with one.
    if (shape.hasSystem && shape.endsWithAssistant) return 'no_system'
    const known = this.#models.get(model)
    return known !== undefined && this.#isRejected(known, shape) ? 'no_system' : 'merged_system'
  }

  /** Whether to send the prompt again as `no_system` after this error. */
  mayBeRejected({ roles }: RequestFormat, error: UpstreamError): boolean {
    return roles === 'merged_system' && REJECTIONS.includes(sentStatus(error))
  }

  /** Call this after an answer to a prompt in this format, unless it was `native`. */
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

  /** Null if the template is not known to reject anything. */
  learned(model: string): LearnedRoles | null {
    const known = this.#models.get(model)
    if (known === undefined) return null
    const regularMs = this.#leftMs(known.regular)
    const leftMs = regularMs ?? this.#leftMs(known.irregular)
    if (leftMs === null) return null
    return { rejects: regularMs === null ? 'irregular' : 'system', untilMs: this.#clock.nowMs() + leftMs }
  }

  /** A template that rejects regular system messages rejects irregular ones, too. */
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

/** Gateways report the status that they received as the code of an error in a 200. */
function sentStatus({ status, code }: UpstreamError): number {
  return status !== null && status >= 300 ? status : Number(code)
}

/**
 * OpenAI's models support all four roles; other servers have a chat template. Azure's rejects `developer` in older versions of its
 * API, and its models treat `system` the same.
 */
export function defaultRoles({ hostname, pathname }: URL): 'native' | 'developer_as_system' | 'auto' {
  if (/(?:^|\.)api\.openai\.com$/.test(hostname)) return 'native'
  // On this host, Azure also serves models of other vendors, at other paths.
  const isFoundry = hostname.endsWith('.services.ai.azure.com') && pathname.startsWith('/openai')
  const isAzure = /\.(?:openai|cognitiveservices)\.azure\.(?:com|us|cn)$/.test(hostname)
  return isAzure || isFoundry ? 'developer_as_system' : 'auto'
}
