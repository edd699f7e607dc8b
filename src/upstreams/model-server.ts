/**
 * Declares the contract between the execution of a job and the model servers. A `ModelServer` makes exactly one call to one
 * server and returns its reply; it neither retries nor chooses. A `Router` chooses servers, retries, and applies concurrency
 * limits and circuit breakers.
 */
import type { Priority } from '../job/priority.ts'
import type { SchemaFacts } from '../job/read-schemas.ts'
import type { StopSignal } from '../job/stop.ts'
import type { SentRoles } from './arrange-messages.ts'

/** The caller may require text, any JSON value, or JSON that satisfies a schema. */
export type AnswerForm =
  | { readonly kind: 'text' }
  | { readonly kind: 'json' }
  /** The stored text of the schema is sent unchanged. `SchemaFacts` show how strictly a server can enforce it. */
  | ({ readonly kind: 'schema'; readonly schemaJson: string } & SchemaFacts)

export interface Prompt {
  /** The JSON array is written by `JSON.stringify`, and keeps the caller's order of messages. */
  readonly messagesJson: string
  /** Accounts share the threads that read large answers. */
  readonly account: string
  readonly form: AnswerForm
  readonly optionsJson?: string
}

/** The server counted these tokens; they are 0 if it reported none. */
export interface TokenCount {
  readonly input: number
  readonly output: number
  /** The server had cached this part of the input. */
  readonly cached?: number
}

/** Expected failures are returned as values; only bugs throw. */
export type Reply =
  | {
      readonly kind: 'answer'
      readonly text: string
      readonly tokens: TokenCount
      /** The field is present if a length limit of the model or its server truncated the answer. */
      readonly truncated?: true
      readonly rate?: ServerRate
    }
  /** The model refused, or a content policy was breached. No other target is tried. */
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
  /**
   * Whether a later call or another target may succeed, for example after a connection error, 408, 409, 424, 429, 498 or 5xx.
   */
  readonly retryable: boolean
  /** The server's Retry-After counts from now, and is null if there was none. */
  readonly retryAfterMs: number | null
  readonly status: number | null
  /** The message is for people: the server's own if it sent one. It contains no key and no header. */
  readonly message: string
  /** This is the server's code or type for the error, or the code of a failed connection. */
  readonly code: string | null
  /** Null unless the connection failed before a response began. */
  readonly connection: ConnectionFault | null
  /** This is true if the server rejects the schema, or rejects how JSON was requested. */
  readonly rejectsJsonMode: boolean
  /** The field is present if an established connection broke, for example because the server crashed. */
  readonly broke?: true
  /** This is true if Parley ended the call itself (deadline, cancel, drain). The error then shows nothing about the server. */
  readonly aborted: boolean
  /** If the last reply of a run has timed out, the job's error is `timeout`. */
  readonly timedOut: boolean
  /** The model used these tokens despite the error. The field is absent if the server counted none. */
  readonly tokens?: TokenCount
  /** The field is present if the length limit was reached before any text. */
  readonly truncated?: true
  readonly rate?: ServerRate
}

/** A server reports these limits per minute (Groq: requests per day). What it does not report is infinite. */
export interface ServerRate {
  readonly limit: { readonly requests: number; readonly tokens: number }
  readonly left: { readonly requests: number; readonly tokens: number }
  /** The whole limit is available again after this time. */
  readonly resetMs: { readonly requests: number; readonly tokens: number }
}

/** Names the kind of a failure, which decides who is responsible; failure-kinds.ts explains the kinds. */
export type FailureKind =
  | 'unreachable'
  | 'overloaded'
  | 'broken'
  | 'misconfigured'
  | 'failing'
  | 'too large'
  | 'final'

export interface Trouble {
  readonly kind: Exclude<FailureKind, 'too large' | 'final'>
  readonly status: number | null
  /** The message is for people. It contains no keys. */
  readonly message: string
}

export type ConnectionFault = 'dns' | 'tls' | 'connection'

export interface ModelServer {
  readonly name: string
  /**
   * Makes one call. Never rejects because of the network or the server.
   * @param model the model's name on this server
   * @param format the result of `requestFormat` or `otherFormat` for the model and the prompt
   * @param signal aborts the call at once
   */
  ask(model: string, prompt: Prompt, format: RequestFormat, signal: StopSignal): Promise<Reply>
  /**
   * Returns the format for sending the prompt now.
   * @param avoidsSchema whether the schema must be sent only as an instruction
   */
  requestFormat(model: string, prompt: Prompt, avoidsSchema?: boolean): RequestFormat
  /**
   * Returns the format for sending the same prompt again at once after an error; null if the server does not reject `format`,
   * or if no other format is left. The rejected call does not count against the job or the target, but appears in the receipt.
   * A prompt is sent in a few formats at most.
   */
  otherFormat(
    model: string,
    prompt: Prompt,
    format: RequestFormat,
    error: UpstreamError,
  ): RequestFormat | null
  /** Returns what is known about the model's chat template; null if nothing is known, or if the roles are configured. */
  learnedRoles(model: string): LearnedRoles | null
  /**
   * Requests the list of models, which costs nothing, on a connection that no call waits for. Resolves with null if the server
   * responds. The status of a temporarily unavailable server or of a gateway is an error. Never rejects.
   */
  check(): Promise<UpstreamError | null>
  /** Closes the connections. Calls in progress end with an error that is `aborted`. */
  close(): Promise<void>
}

/** A model's chat template rejects these conversations, so they are sent as `no_system`. */
export interface LearnedRoles {
  /** `system`: any system message. `irregular`: later system messages, and roles that do not alternate. */
  readonly rejects: 'system' | 'irregular'
  /** The assumption ends at this time (Unix time). */
  readonly untilMs: number
}

export interface RequestFormat {
  readonly roles: SentRoles
  readonly json_mode?: JsonMode
  /** `options.max_tokens` is sent under this name. The field is absent if it is sent as `max_tokens`, or not sent. */
  readonly max_tokens_as?: 'max_completion_tokens'
  readonly instruction?: string
  /** This part differs from the usual format, because the server rejected that or the schema may crash it. */
  readonly other_format?: 'roles' | 'json_mode' | 'both'
}

/**
 * JSON is requested by the schema in `response_format`, strict or not; by any JSON object, with the schema in an instruction;
 * or by an instruction alone. With `simulated`, the simulator generates an instance of the schema.
 */
export type JsonMode = 'json_schema_strict' | 'json_schema' | 'json_object' | 'instruction' | 'simulated'

/** The stored receipt calls an upstream error `trouble`. */
export interface CallRecord extends RequestFormat {
  readonly target: string
  readonly kind: 'answer' | 'refused' | 'trouble'
  readonly status: number | null
  /** The call started at this time (Unix time). */
  readonly at_ms: number
  readonly ms: number
  /** The cost is in millionths of the currency, and absent if the target has no price. */
  readonly cost?: number
  readonly finish_reason?: 'length'
  readonly broke?: {
    /** These calls were in progress at the target, including this one. */
    readonly in_progress: number
    readonly counts: boolean
    readonly schema?: string
  }
}

/** `reply` is the reply of the last call. `calls` contains all calls in the order of time. */
export interface RoutedReply {
  readonly reply: Reply
  /** The last call went to this target (`upstream/model`); null if the request ended before or between calls. */
  readonly target: string | null
  readonly calls: readonly CallRecord[]
  /** This is the sum over all calls, including failed ones. */
  readonly tokens: TokenCount
  /** If present, the job should wait for a model server instead of failing with this reply. */
  readonly wait?: RequestWait
}

/** Counts the calls of a job whose connection broke, over all runs. */
export interface JobBreaks {
  readonly seen: number
  /** These calls broke at targets that had answered other jobs since the previous break there. */
  readonly unexpected: number
  readonly counted: number
  /** The last connection broke at this time (Unix time). */
  readonly lastMs: number
}

export interface RequestWait {
  /** The job waits for the targets of this route (`Candidates.key`). */
  readonly route: string
  /** This many tries have counted against the job, in all runs. */
  readonly tries: number
  readonly breaks?: JobBreaks
  /** The route has had no available target since this time (Unix time); null if one is available now. */
  readonly unavailableSinceMs: number | null
  /** One of the targets last became available at this time (Unix time); -Infinity if none has since the start. */
  readonly availableSinceMs: number
  readonly trouble: Trouble | null
  /** The request paused for this time because connections of its calls broke, in whole milliseconds. */
  readonly breakPausesMs?: number
  /** The field is present if the request only waits for a rate limit, which does not use the job's patience. */
  readonly isForRate?: true
}

export interface Router {
  /**
   * Tries the model's targets in order until one answers or refuses, an error is final, or all tries are used; then the last
   * error is the reply. If jobs are patient and the targets rather than the request are to blame, the result has a `wait`; no
   * call is made while all targets are unavailable. Never rejects because of an upstream.
   */
  ask(request: ModelRequest, signal: StopSignal): Promise<RoutedReply>
  close(): Promise<void>
}

export interface ModelRequest {
  readonly jobId: string
  /** Earlier runs made this many tries that count against the job. */
  readonly tries: number
  readonly breaks?: JobBreaks
  /** Accounts share the slots of an upstream. */
  readonly account: string
  /** The public name may be `gpt-auto`. */
  readonly model: string
  /** The tier sets the account's weight and the models that `gpt-auto` may choose. */
  readonly tier: string
  readonly inputTokens: number
  /** The request waits for a slot with this priority; normal if absent. */
  readonly priority?: Priority
  readonly prompt: Prompt
  /** The router awaits this once, after it has acquired the first slot and before the first call. */
  readonly beforeCall?: () => Promise<void>
}
