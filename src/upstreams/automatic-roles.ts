/**
 * The roles of `auto`: sends conversations as `merged_system`, and as `no_system` where that is what the server accepts.
 *
 * Nothing tells which chat template a server applies, so this learns it from its answers. A conversation that it rejects as
 * `merged_system`, without a schema, and then answers as `no_system` shows what the template does not take. This is remembered
 * per model for less than an hour, and then tried again. What a template accepts is remembered too, so that a server which fails
 * for any other reason now and then is not taken for one that rejects system messages.
 */
import type { Clock } from '../clock.ts'
import type { SentRoles } from './arrange-messages.ts'
import type { JsonMode, LearnedRoles, Prompt, RequestFormat, UpstreamError } from './model-server.ts'

export const REMEMBERED_MS = 50 * 60_000
/** For this long after a template accepted a kind of conversation, a single rejection of that kind is not remembered. */
export const ACCEPTED_MS = 10 * 60_000

/** The statuses by which servers report that a template rejects a conversation. */
const REJECTIONS: readonly number[] = [400, 422, 500]

/** A rejected request that contained a schema shows nothing about roles. */
const SCHEMAS: readonly (JsonMode | undefined)[] = ['json_schema', 'json_schema_strict']

/** No text of a message can look like a role, because every quote in it is escaped. */
const ROLE = '"role":"'

/** What a conversation requires of a chat template if it is sent as `merged_system`. */
export interface Shape {
  /** Whether it has system messages. */
  readonly hasSystem: boolean
  /** Whether at most one system message comes first, and then user and assistant alternate, beginning with the user. */
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

/** What is known about one kind of conversation. Times are on the steady clock. */
interface Known {
  acceptedAtMs: number | null
  rejectedUntilMs: number | null
}

/** Regular conversations with a system message, and irregular ones. All templates accept the others. */
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

  /** How to send the prompt first: `native` if every form of it is the same. */
  rolesFor(model: string, { messagesJson }: Prompt, hasInstruction: boolean): SentRoles {
    const shape = shapeOf(messagesJson, hasInstruction)
    if (!shape.hasSystem && shape.isRegular) return 'native'
    // Some templates put the system message before the last user message, and drop it if there is none at the end.
    if (shape.hasSystem && shape.endsWithAssistant) return 'no_system'
    const known = this.#models.get(model)
    return known !== undefined && this.#isRejected(known, shape) ? 'no_system' : 'merged_system'
  }

  /** Whether to send the prompt once more as `no_system`, after that error. */
  mayBeRejected({ roles }: RequestFormat, error: UpstreamError): boolean {
    return roles === 'merged_system' && REJECTIONS.includes(sentStatus(error))
  }

  /** After an answer to the prompt, in that format, which is not `native`. */
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

  /** Null if nothing is known to be rejected. */
  learned(model: string): LearnedRoles | null {
    const known = this.#models.get(model)
    if (known === undefined) return null
    const regularMs = this.#leftMs(known.regular)
    const leftMs = regularMs ?? this.#leftMs(known.irregular)
    if (leftMs === null) return null
    return { rejects: regularMs === null ? 'irregular' : 'system', untilMs: this.#clock.nowMs() + leftMs }
  }

  /** A template that accepts no system message at all does not accept one anywhere else either. */
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

/** Gateways report the status that they received as the code of an error inside a 200. */
function sentStatus({ status, code }: UpstreamError): number {
  return status !== null && status >= 300 ? status : Number(code)
}

/** The default roles of a server: OpenAI's models support all four; others have a chat template. */
export function defaultRoles({ hostname, pathname }: URL): 'native' | 'auto' {
  const isOpenAi = /(?:^|\.)api\.openai\.com$/.test(hostname)
  // On this host, Azure also serves models of other vendors, at other paths.
  const isFoundry = hostname.endsWith('.services.ai.azure.com') && pathname.startsWith('/openai')
  const isAzure = /\.(?:openai|cognitiveservices)\.azure\.(?:com|us|cn)$/.test(hostname)
  return isOpenAi || isAzure || isFoundry ? 'native' : 'auto'
}
