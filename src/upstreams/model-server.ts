/**
 * The contract between the execution of a job and the model servers.
 *
 * A `ModelServer` makes exactly one call to one server and returns its reply; it neither retries nor chooses. The router
 * (router.ts) chooses targets, retries, and applies concurrency limits and circuit breakers. An execution (queue/execute.ts)
 * sends requests to the router and checks the answers.
 */
import type { Priority } from '../job/priority.ts'
import type { SchemaFacts } from '../job/read-schemas.ts'
import type { StopSignal } from '../job/stop.ts'
import type { SentRoles } from './arrange-messages.ts'

/** The required format of the answer, and how strictly the server can enforce it. */
export type AnswerForm =
  | { readonly kind: 'text' }
  /** Any JSON value. */
  | { readonly kind: 'json' }
  /** JSON that satisfies the schema, whose stored text is sent unchanged. */
  | ({ readonly kind: 'schema'; readonly schemaJson: string } & SchemaFacts)

/** The conversation in the caller's order, and the format of the answer. */
export interface Prompt {
  /** An array of messages as JSON text, as `JSON.stringify` writes it. */
  readonly messagesJson: string
  /** The account of the job, which shares the resources for reading large answers. */
  readonly account: string
  readonly form: AnswerForm
  /** The job's `options` as JSON text (`job/options.ts`); absent if it has none. */
  readonly optionsJson?: string
}

/** Tokens as the server counted them; 0 if it did not report them. */
export interface TokenCount {
  readonly input: number
  readonly output: number
  /** Cached tokens of the input; absent if the server reported none. */
  readonly cached?: number
}

/** The result of one call. Expected failures are returned as values; only bugs throw. */
export type Reply =
  | {
      readonly kind: 'answer'
      readonly text: string
      readonly tokens: TokenCount
      /** Present if the answer was truncated at a length limit of the model or its server. */
      readonly truncated?: true
      readonly rate?: ServerRate
    }
  /** A refusal, `content_filter`, or an error code for a breach of content policy. Another target is not tried. */
  | {
      readonly kind: 'refused'
      readonly message: string
      readonly status: number | null
      readonly tokens: TokenCount
      readonly rate?: ServerRate
    }
  | UpstreamError

/** There was no response, or the response was not a chat completion. */
export interface UpstreamError {
  readonly kind: 'error'
  /** Whether a later call or another target may succeed: connection errors, 408, 409, 424, 429, 498, 5xx. */
  readonly retryable: boolean
  /** The server's Retry-After in milliseconds from now; null if there is none. */
  readonly retryAfterMs: number | null
  /** The HTTP status; null if no response arrived. */
  readonly status: number | null
  /** For people: the server's own message if it sent one. It contains no key and no header. */
  readonly message: string
  /** The server's code or type for the error, or the code of a failed connection; null if there is none. */
  readonly code: string | null
  /** Why the connection failed; null if there was a response, or if the call timed out. */
  readonly connection: ConnectionFault | null
  /** Whether the server rejects the schema or the way in which JSON was requested (see `otherFormat`). */
  readonly rejectsJsonMode: boolean
  /** Present if an established connection broke, for example because the server crashed. */
  readonly broke?: true
  /** Whether Parley ended the call itself (deadline, cancel, drain), so that it shows nothing about the server. */
  readonly aborted: boolean
  /** Whether the call timed out. If this is the last reply of a run, the job's error is `timeout`. */
  readonly timedOut: boolean
  /** Tokens that were used despite the error; absent if the server counted none. */
  readonly tokens?: TokenCount
  /** Present if the length limit was reached before any text. */
  readonly truncated?: true
  readonly rate?: ServerRate
}

/**
 * The rate limits that a server reports, in requests and tokens per minute (Groq: requests per day); infinite if not reported.
 */
export interface ServerRate {
  readonly limit: { readonly requests: number; readonly tokens: number }
  readonly left: { readonly requests: number; readonly tokens: number }
  /** In how many milliseconds the whole limit is available again. */
  readonly resetMs: { readonly requests: number; readonly tokens: number }
}

/** Who is responsible for a failed call (failure-kinds.ts). */
export type FailureKind =
  | 'unreachable'
  | 'overloaded'
  | 'broken'
  | 'misconfigured'
  | 'failing'
  | 'too large'
  | 'final'

/** Why jobs wait for a target. */
export interface Trouble {
  readonly kind: Exclude<FailureKind, 'too large' | 'final'>
  readonly status: number | null
  /** A message for people, without keys. */
  readonly message: string
}

/** The step at which a connection failed: the name lookup, the TLS handshake, or the connection itself. */
export type ConnectionFault = 'dns' | 'tls' | 'connection'

export interface ModelServer {
  /** The upstream's name in the configuration. */
  readonly name: string
  /**
   * Makes one call. Never rejects because of the network or the server.
   * @param model the model's name on this server
   * @param format the result of `requestFormat` or `otherFormat` for the model and the prompt
   * @param signal aborts the call at once
   */
  ask(model: string, prompt: Prompt, format: RequestFormat, signal: StopSignal): Promise<Reply>
  /**
   * The format in which to send the prompt now.
   * @param avoidsSchema whether the schema must be sent only as an instruction
   */
  requestFormat(model: string, prompt: Prompt, avoidsSchema?: boolean): RequestFormat
  /**
   * The format in which to send the same prompt again at once, after a call in `format` ended in this error; null if the server
   * does not reject the format. The rejected call does not count against the job or the target, but appears in the receipt. A
   * prompt is sent in a few formats at most.
   */
  otherFormat(
    model: string,
    prompt: Prompt,
    format: RequestFormat,
    error: UpstreamError,
  ): RequestFormat | null
  /** What is known about the model's chat template; null if nothing is known, or if the roles are configured. */
  learnedRoles(model: string): LearnedRoles | null
  /**
   * Requests the list of models, which costs nothing, on a connection that no call waits for. Resolves to null if the server
   * responds. A status of a temporarily unavailable server or of a gateway is an error. Never rejects.
   */
  check(): Promise<UpstreamError | null>
  /** Closes the connections. Calls in progress end with an error that is `aborted`. */
  close(): Promise<void>
}

/** What a model's chat template rejects. Conversations of this kind are sent as `no_system`. */
export interface LearnedRoles {
  /**
   * `system`: any system message. `irregular`: system messages that are not the first message, and roles that do not alternate.
   */
  readonly rejects: 'system' | 'irregular'
  /** Until when this is assumed (Unix time in milliseconds). */
  readonly untilMs: number
}

/** How a request represents the caller's messages and the requested format of the answer. */
export interface RequestFormat {
  readonly roles: SentRoles
  /** How JSON is requested; absent for text. */
  readonly json_mode?: JsonMode
  /** The name under which `options.max_tokens` is sent; absent if it is the usual name or the option is not sent. */
  readonly max_tokens_as?: 'max_completion_tokens'
  /** The instruction added to the caller's messages, if any. */
  readonly instruction?: string
  /**
   * What differs from the usual format, because the server rejected that or the schema may crash it; absent in the usual
   * format.
   */
  readonly other_format?: 'roles' | 'json_mode' | 'both'
}

/**
 * How JSON is requested: by the schema in `response_format`, strict or not; by any JSON object, with the schema in an
 * instruction; or by an instruction alone. With `simulated`, the simulator generates an instance of the schema.
 */
export type JsonMode = 'json_schema_strict' | 'json_schema' | 'json_object' | 'instruction' | 'simulated'

/** One call in the stored receipt. The stored JSON calls an upstream error `trouble`. */
export interface CallRecord extends RequestFormat {
  readonly target: string
  readonly kind: 'answer' | 'refused' | 'trouble'
  readonly status: number | null
  /** When the call started, Unix time in milliseconds. */
  readonly at_ms: number
  readonly ms: number
  /** The cost in millionths of the currency; absent if the target has no price. */
  readonly cost?: number
  /** Present if the answer was truncated at a length limit. */
  readonly finish_reason?: 'length'
  /** Present if the connection broke during the call. */
  readonly broke?: {
    /** Calls in progress at the target, including this one. */
    readonly in_progress: number
    /** Whether the break counts against the job (breaks.ts). */
    readonly counts: boolean
    /** The fingerprint of the job's schema. */
    readonly schema?: string
  }
}

/** The router's result: the last reply, its target, and every call in the order of time. */
export interface RoutedReply {
  readonly reply: Reply
  /** As `upstream/model`; null if no call was made, or if the signal ended the request between calls. */
  readonly target: string | null
  readonly calls: readonly CallRecord[]
  /** The sum over all calls, including failed ones. */
  readonly tokens: TokenCount
  /** Present if the job should wait for a model server instead of failing with this reply. */
  readonly wait?: RequestWait
}

/** The broken calls of a job, over all runs. */
export interface JobBreaks {
  readonly seen: number
  /** Breaks at targets that had answered other jobs since their previous break. */
  readonly unexpected: number
  /** Breaks that count against the job. */
  readonly counted: number
  /** The time of the last break, Unix time in milliseconds. */
  readonly lastMs: number
}

/** Why a request must be repeated later, and what the next run must know. */
export interface RequestWait {
  /** The key of the targets that it waits for (`routes.ts`). */
  readonly route: string
  /** Tries that have counted against the job so far, including those before this request. */
  readonly tries: number
  /** The job's calls whose connection broke; absent if none did. */
  readonly breaks?: JobBreaks
  /** When the last available target of the route became unavailable, Unix time in milliseconds; null if one is available now. */
  readonly unavailableSinceMs: number | null
  /**
   * When one of the targets last became available, Unix time in milliseconds; -Infinity if none has since this node started.
   */
  readonly availableSinceMs: number
  readonly trouble: Trouble | null
  /** How long the request paused because connections of its calls broke, in whole milliseconds; absent if it did not. */
  readonly breakPausesMs?: number
  /** Whether the request only waits for a rate limit, which does not use the job's patience. */
  readonly isForRate?: true
}

/** Chooses the model server that answers for a public model name. */
export interface Router {
  /**
   * Tries the model's targets in order until one answers or refuses, or all tries are used; then the last error is the reply.
   * If jobs are patient and the targets rather than the request are to blame, the result has a `wait`; no call is made while
   * all targets are unavailable. Never rejects because of an upstream.
   */
  ask(request: ModelRequest, signal: StopSignal): Promise<RoutedReply>
  close(): Promise<void>
}

export interface ModelRequest {
  /** The job against which failures count. */
  readonly jobId: string
  /** Tries of earlier runs that count against the job. */
  readonly tries: number
  /** Calls of earlier runs whose connection broke; absent if none did. */
  readonly breaks?: JobBreaks
  /** The job's account. Accounts share the slots of an upstream. */
  readonly account: string
  /** The public model name, possibly `gpt-auto`. */
  readonly model: string
  /** The name of the job's tier, which sets the account's weight and the models that `gpt-auto` may choose. */
  readonly tier: string
  readonly inputTokens: number
  /** The priority with which the request waits for a slot; absent for normal. */
  readonly priority?: Priority
  readonly prompt: Prompt
  /** Awaited once, when the first slot has been acquired and before the first call is sent. */
  readonly beforeCall?: () => Promise<void>
}
