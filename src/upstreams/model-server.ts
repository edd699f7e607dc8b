/**
 * The contract between a run and the model servers.
 *
 * A `ModelServer` makes exactly one call to one server and returns its reply; it neither retries nor chooses. The
 * router (router.ts) chooses targets, retries, and applies concurrency limits and circuit breakers. A run
 * (queue/execute.ts) asks the router and checks the answer.
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
  /** JSON that satisfies the schema, which is sent as the stored text. */
  | ({ readonly kind: 'schema'; readonly schemaJson: string } & SchemaFacts)

/** The conversation in the caller's order, and the format of the answer. */
export interface Prompt {
  /** An array of messages as JSON text, as `JSON.stringify` writes it. */
  readonly messagesJson: string
  /** The account of the job, to which the resources of its answer are charged. */
  readonly account: string
  readonly form: AnswerForm
  /** The job's `options` as JSON text (`job/options.ts`); absent if it has none. */
  readonly optionsJson?: string
}

/** Tokens as counted by the server; 0 if it did not report them. */
export interface TokenCount {
  readonly input: number
  readonly output: number
  /** Cached tokens of the input; absent if the server reported none. */
  readonly cached?: number
}

/** The result of one call. Expected failures are values; only bugs throw. */
export type Reply =
  | {
      readonly kind: 'answer'
      readonly text: string
      readonly tokens: TokenCount
      /** Present if the answer was truncated at a length limit of the model or its server. */
      readonly truncated?: true
      readonly rate?: ServerRate
    }
  /** A refusal, `content_filter`, or an error code for a breach of content policy. Final: no other target is tried. */
  | {
      readonly kind: 'refused'
      readonly message: string
      readonly status: number | null
      readonly tokens: TokenCount
      readonly rate?: ServerRate
    }
  | UpstreamError

/** The server did not respond, or did not respond with a chat completion. */
export interface UpstreamError {
  readonly kind: 'error'
  /** Whether another target, or the same one later, may succeed: connection errors, 408, 409, 424, 429, 498, 5xx. */
  readonly retryable: boolean
  /** The delay that Retry-After asks for, in milliseconds from now; null if the header is absent. */
  readonly retryAfterMs: number | null
  /** The HTTP status; null if no response arrived. */
  readonly status: number | null
  /** For people: the server's own message if it sent one. Never contains a key or a header. */
  readonly message: string
  /** The server's code or type of the error, or the code of a failed connection; null if there is none. */
  readonly code: string | null
  /** Why the connection failed; null if there was a response, or if the call timed out. */
  readonly connection: ConnectionFault | null
  /** Whether the server rejects the schema or the way in which JSON was requested: see `otherFormat`. */
  readonly rejectsJsonMode: boolean
  /** Present if an established connection broke, for example because the server crashed. */
  readonly broke?: true
  /** Whether our own signal ended the call (deadline, cancel, drain), so that it shows nothing about the server. */
  readonly aborted: boolean
  /** Whether the call timed out. If it is a run's last reply, the job's error is `timeout`. */
  readonly timedOut: boolean
  /** Tokens used despite the error; absent if the server counted none. */
  readonly tokens?: TokenCount
  /** Present if the length limit was reached before any text. */
  readonly truncated?: true
  readonly rate?: ServerRate
}

/** The limits that a server reports, in requests and tokens per minute (Groq's: requests per day); infinite if it reports none. */
export interface ServerRate {
  readonly limit: { readonly requests: number; readonly tokens: number }
  readonly left: { readonly requests: number; readonly tokens: number }
  /** When the whole limit is available again, in milliseconds. */
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

/** The step that failed: the name lookup, the TLS handshake, or the connection itself. */
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
   * @param avoidsSchema whether its schema must only be sent as an instruction
   */
  requestFormat(model: string, prompt: Prompt, avoidsSchema?: boolean): RequestFormat
  /**
   * The format in which to send the same prompt again at once, after a call in `format` ended in this error; null if the server
   * does not reject the format. The first call does not count against the job or the target, and appears in the receipt like any
   * other. A prompt is sent in a few formats at most.
   */
  otherFormat(
    model: string,
    prompt: Prompt,
    format: RequestFormat,
    error: UpstreamError,
  ): RequestFormat | null
  /** What is known about the model's chat template; null if nothing, or if the roles are configured. */
  learnedRoles(model: string): LearnedRoles | null
  /**
   * Requests the list of models, which is free, on a connection that no call waits for. Resolves to null if anything responds
   * except a gateway or a temporarily unavailable server; never rejects.
   */
  check(): Promise<UpstreamError | null>
  /** Closes the connections. Calls in progress end as aborted errors. */
  close(): Promise<void>
}

/** What a model's chat template rejects; such conversations are sent as `no_system`. */
export interface LearnedRoles {
  /** Rejects any system message; or only those that are not the first message, and roles that do not alternate. */
  readonly rejects: 'system' | 'irregular'
  /** How long this is assumed (wall clock). */
  readonly untilMs: number
}

/** How a request represents the caller's messages and the requested format of the answer. */
export interface RequestFormat {
  /** How the roles of the messages are sent. */
  readonly roles: SentRoles
  /** How JSON is requested; absent if text was requested. */
  readonly json_mode?: JsonMode
  /** The name under which `options.max_tokens` is sent; absent for the usual name, or if it is not sent. */
  readonly max_tokens_as?: 'max_completion_tokens'
  /** The instruction added to the caller's messages, if any. */
  readonly instruction?: string
  /** What differs from the usual format, because the server rejected that or may crash; absent in the usual format. */
  readonly other_format?: 'roles' | 'json_mode' | 'both'
}

/**
 * How JSON is requested: by the schema in `response_format`, strict or not; by any JSON object, with the schema in an
 * instruction; or by an instruction alone. With `simulated`, the simulator generates an instance of the schema.
 */
export type JsonMode = 'json_schema_strict' | 'json_schema' | 'json_object' | 'instruction' | 'simulated'

/** One call in the stored receipt. Receipts are released JSON, in which an upstream error is `trouble`. */
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

/** The router's result: the last reply, its target, and every call made, in order. */
export interface RoutedReply {
  readonly reply: Reply
  /** As `upstream/model`; null if no call was made, or if the signal ended the request. */
  readonly target: string | null
  readonly calls: readonly CallRecord[]
  /** Summed over all calls, including failed ones. */
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

/** Why a request must be repeated later. */
export interface RequestWait {
  /** The key of the targets that it waits for (`routes.ts`). */
  readonly route: string
  /** Tries that have counted against the job so far, including those before this request. */
  readonly tries: number
  /** The job's calls whose connection broke; absent if none did. */
  readonly breaks?: JobBreaks
  /**
   * When the targets stopped responding, Unix time in milliseconds; null if one has responded since and can be called now.
   */
  readonly unavailableSinceMs: number | null
  /** When one of the targets last became available, as far as this node knows. */
  readonly availableSinceMs: number
  readonly trouble: Trouble | null
  /** How long the request paused because its calls broke, in whole milliseconds; absent if it did not. */
  readonly breakPausesMs?: number
  /** Nothing has failed, and the wait uses none of the job's patience. */
  readonly isForRate?: true
}

/** Chooses the model server that answers for a public model name. */
export interface Router {
  /**
   * Tries the model's targets in order until one answers or refuses, or all tries are used; then the last error is the reply. If
   * jobs have patience, and the targets are unavailable rather than the request at fault, the result has a `wait`. While all
   * targets are unavailable, no call is made. Never rejects because of an upstream.
   */
  ask(request: ModelRequest, signal: StopSignal): Promise<RoutedReply>
  close(): Promise<void>
}

export interface ModelRequest {
  /** The job whose failures are counted. */
  readonly jobId: string
  /** Tries of earlier runs that counted against the job. */
  readonly tries: number
  /** Calls of earlier runs whose connection broke; absent if none did. */
  readonly breaks?: JobBreaks
  /** The account of the request. Accounts share the slots of an upstream. */
  readonly account: string
  /** The public model name, possibly `gpt-auto`. */
  readonly model: string
  /** The name of the job's tier, which sets the account's weight and the models that `gpt-auto` may choose. */
  readonly tier: string
  readonly inputTokens: number
  /** The priority with which the request waits for a slot; absent for normal. */
  readonly priority?: Priority
  readonly prompt: Prompt
  /** Awaited once, after the first slot is acquired and before the first call is sent. */
  readonly beforeCall?: () => Promise<void>
}
