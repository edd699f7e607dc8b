/**
 * Who answers: the contract between a run and whatever answers it.
 *
 * A `ModelServer` makes exactly one exchange with one server and reports what came of it; it neither retries nor
 * chooses. The router (router.ts) chooses targets, retries, limits and skips. A run (queue/execute.ts) asks the router and
 * checks the answer.
 */
import type { Message, SchemaObject } from '../job/job.ts'
import type { StopSignal } from '../job/stop.ts'

/** What form the answer is to have, and how far the server can be held to it. */
export type AnswerForm =
  | { readonly kind: 'text' }
  /** Any JSON value. */
  | { readonly kind: 'json' }
  /** JSON that satisfies the schema; `strict` where the schema meets the rules of strict structured outputs. */
  | { readonly kind: 'schema'; readonly schema: SchemaObject; readonly strict: boolean }

/** What is asked: the conversation in the caller's order, and the form of the answer. */
export interface Prompt {
  readonly messages: readonly Message[]
  /** The messages as JSON text, where there is one already. */
  readonly messagesJson?: string | undefined
  readonly form: AnswerForm
}

/** Tokens as the server counted them; 0 where it did not say. */
export interface TokenCount {
  readonly input: number
  readonly output: number
}

/** What came of one exchange. Expected troubles are values; only bugs throw. */
export type Reply =
  | {
      readonly kind: 'answer'
      readonly text: string
      readonly tokens: TokenCount
      /** Present when the model stopped at its own or its server's length limit: the text is what came until then. */
      readonly truncated?: true
    }
  /** A refusal, `content_filter`, or an error coded as a breach of content policy: final, not to be tried elsewhere. */
  | {
      readonly kind: 'refused'
      readonly message: string
      readonly status: number | null
      readonly tokens: TokenCount
    }
  | UpstreamError

/** The server did not answer, or not with a chat completion. */
export interface UpstreamError {
  readonly kind: 'trouble'
  /** Whether another target, or the same one later, may do better: connection errors, 408, 409, 429, 5xx. */
  readonly retryable: boolean
  /** What the server asked for in Retry-After, in milliseconds from now; null when it did not. */
  readonly retryAfterMs: number | null
  /** The HTTP status; null when no response came. */
  readonly status: number | null
  /** For people: the server's own words where it answered with any; never holds a key or a header. */
  readonly message: string
  /** True when our own signal ended the call (deadline, cancel, drain), and so nothing is said about the server. */
  readonly aborted: boolean
  /** True when the call's own deadline passed: as a run's last reply this makes the job's error a `timeout`. */
  readonly timedOut: boolean
  /** Tokens that a useless answer cost all the same; absent where none were counted. */
  readonly tokens?: TokenCount
}

export interface ModelServer {
  /** The upstream's name in the configuration. */
  readonly name: string
  /**
   * Makes one exchange. Never rejects for anything the network or the server does.
   * @param model the model's name on this server
   * @param signal ends the exchange at once when stopped
   */
  ask(model: string, prompt: Prompt, signal: StopSignal): Promise<Reply>
  /** How `ask` asks for an answer of that form. */
  mannerFor(form: AnswerForm): RequestFormat
  /** Closes the connections. Exchanges under way end as aborted trouble. */
  close(): Promise<void>
}

/** How a server was asked: what was made of the caller's messages and of the form that the answer is to have. */
export interface RequestFormat {
  /** Whether `developer` messages were sent as what they are, or as `system`. */
  readonly roles: 'native' | 'developer_as_system'
  /** What was to make the answer JSON; absent where text was asked for. */
  readonly json_mode?: JsonMode
  /** The instruction that was added to the caller's messages, where one was. */
  readonly instruction?: string
}

/**
 * The schema by itself, strict or not; any object, with the schema in an instruction; an instruction alone. The
 * simulator makes what is `simulated` of the schema, and asks nobody.
 */
export type JsonMode = 'json_schema_strict' | 'json_schema' | 'json_object' | 'instruction' | 'simulated'

/** One exchange as the router saw it, in the order made: kept for the job's receipt. */
export interface CallRecord extends RequestFormat {
  readonly target: string
  readonly kind: Reply['kind']
  readonly status: number | null
  /** When it began, Unix time in milliseconds. */
  readonly at_ms: number
  readonly ms: number
}

/** The router's answer: the last reply, which target gave it, and every call that was made on the way. */
export interface Routed {
  readonly reply: Reply
  readonly target: string | null
  readonly calls: readonly CallRecord[]
  /** Summed over all calls, the failed ones included. */
  readonly tokens: TokenCount
}

/** Chooses who answers a public model name. */
export interface Router {
  /**
   * Tries the model's targets in order until one answers or refuses, or until all tries are spent; the last trouble
   * is then the reply. Never rejects for anything that an upstream does.
   */
  ask(question: Question, signal: StopSignal): Promise<Routed>
  close(): Promise<void>
}

export interface Question {
  /** The public model name, `gpt-auto` included. */
  readonly model: string
  /** The public model names that the caller's tier may use, for `gpt-auto`. */
  readonly allowed: (model: string) => boolean
  readonly inputTokens: number
  readonly prompt: Prompt
}
