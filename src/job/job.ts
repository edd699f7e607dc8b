/**
 * What a job is. This folder is pure: it uses no clock, no database and no network.
 *
 * Glossary: one word for one idea, from the database to the documents. A name in brackets is a released column, metric,
 * field, flag or setting that keeps its older name.
 *
 * What there is:
 * - **job**: one conversation for a model to answer, with everything needed to run it again.
 * - **message**: one turn of the conversation, `{ role, content }`.
 * - **batch**: several jobs created by one request, all or none of them.
 * - **account**: the owner of jobs, with one **tier** and any number of API **keys**.
 * - **tier**: what an account may do: models, batch size, reads per minute, input tokens, weight, caps, quotas.
 * - **cap**: what an account may use in a month, in jobs or in tokens; **usage**: what it has used.
 * - **quota**: how many jobs an account may have open (queued or assigned), and how many bytes its jobs may store.
 * - **node**: one running Parley process. Its **lease** shows the other nodes that it is alive; a **heartbeat** renews it.
 * - **upstream**: a configured model server; a **target** is an upstream and the name of the model there.
 * - **receiver**: the server of a caller that callbacks go to: one account's part of an origin.
 * - **operator**: a person who runs Parley; an **admin action** is what an operator does, and the **audit log** records it
 *   (`act`, `acts` in tables and in `/admin/api`).
 *
 * What happens to a job:
 * - **status**: `pending` (queued), `assigned` (a node runs it), then finally `completed` or `failed`.
 * - **accept**: store a job durably, as completed if there is a cached response. Only then does it run, and the caller get its
 *   identifier.
 * - **queue**: the accepted jobs that no node has claimed, in **fair order**; a job's **turn** is its place in that order
 *   (`waiting` in metrics and in `/admin/api`).
 * - **slot**: room for one running job, call or delivery; **capacity**: how many slots are free (`concurrency` in settings).
 * - **claim**: a node takes a job from the queue. The claim's **attempt** number fences later writes.
 * - **hand-off**: a node that has a free slot runs the job that it accepts itself, without a claim.
 * - **execute**: answer a job once: cached response if it was queued, else model, check, one repair. An execution ends in one
 *   **outcome** (`run` in settings: `run_timeout_seconds`).
 * - **settle**: store the outcome, once and for all, together with the callback that is owed.
 * - **release**: return a claimed job to the queue without an outcome, because the node drains, or the job waits for a model server.
 * - **route**: the targets that a job may be sent to, in order. While none of them is available the job **waits for a model
 *   server**: it is queued, and its route is not claimed from.
 * - **lane**: the queued jobs of one account on one route.
 * - **patience**: how long a job may wait for model servers in all before it fails.
 * - **rescue**: return the jobs of a dead node to the queue; each one's **crash count** grows (`deaths` in tables). A crash is
 *   **reverted** if its node was only paused and comes back, and **confirmed** once the node has been absent for long.
 * - **suspect**: a job with a crash count above 0: it may be what killed its node. Its **start** is recorded before it runs, and from
 *   then on only a crash after a recorded start counts.
 * - **cancel**: its caller or an operator settles a job early: it fails with `cancelled`.
 * - **cached response**: the answer of a completed job, used for identical jobs until it expires (`kept_answers` in tables).
 * - **pending response**: an open HTTP request that waits for its job (`waiters` in metrics and settings).
 * - **remote result**: the outcome of a job that another node ran, for a pending response on this node.
 * - **finished**: completed or failed, so settled (`ended` in columns, fields and many names).
 * - **expire**: a job can no longer be read; **retention** deletes it.
 * - **scrub**: remove deleted data from the disk as far as the database can.
 *
 * What happens to a callback:
 * - **callback**: the POST that reports an outcome to the caller's server. It is **owed** from the settlement on.
 * - **delivery**: a callback that this node has taken to send; an **attempt** sends it once.
 * - **delivery queue**: `first` for callbacks never tried, `retry` for the others (`lane` in tables and metrics; `under_way` in both is an attempt in progress).
 * - **defer**: return a delivery to the store untried, because its receiver has no slot.
 */

/** SPEC §2.5: the four statuses a read may return. */
export type Status = 'pending' | 'assigned' | 'completed' | 'failed'

/** SPEC §2.3, in no particular order; a conversation may mix all four. */
export const ROLES = ['system', 'developer', 'assistant', 'user'] as const
export type Role = (typeof ROLES)[number]

/** SPEC §2.3. `content` may be empty. */
export interface Message {
  readonly role: Role
  readonly content: string
}

/** SPEC §2.2. `schema` is the JSON value that the caller sent, accepted when the job was created. */
export type ResponseFormat =
  | { readonly format: 'text' }
  | { readonly format: 'json'; readonly schema?: SchemaObject }

/** A caller's JSON Schema object, as parsed. */
export type SchemaObject = { readonly [keyword: string]: unknown }

/** SPEC §2.4, as stored. `payloadJson` is JSON text, so that 64-bit integers and `1e400` are returned as they were sent. */
export interface Callback {
  readonly url: string
  readonly headers: { readonly [name: string]: string }
  readonly payloadJson: string
  /** What else the body contains of the job (`job-record.ts`); absent for nothing. */
  readonly include?: readonly 'usage'[]
}

/** How a callback is stored: the URL comes first, so that it is found without reading the payload. */
export function callbackText({ url, headers, payloadJson, include }: Callback): string {
  return JSON.stringify({ url, headers, payloadJson, include })
}

/** A job with everything that its execution needs. */
export interface Job {
  /** UUIDv7: the creation time in its first 48 bits keeps stored jobs in the order of time. */
  readonly id: string
  readonly account: string
  /** The account's tier when the job was created; `gpt-auto` chooses from this tier's models. */
  readonly tier: string
  /** The public model name the caller asked for. */
  readonly model: string
  /**
   * The messages as JSON text, written once for the store, the fingerprint and the call. A running job holds no parsed
   * conversation: it would take many times the memory of the text, and parsing it blocks the event loop.
   */
  readonly messagesJson: string
  /** `response_format` as JSON text, with the options of the job in it; `response-format.ts` takes it apart. */
  readonly responseFormatJson: string
  /** How long the answer is cached for identical jobs (SPEC §2.1 `message_cache_ttl`), in whole milliseconds. */
  readonly cacheTtlMs: number
  /** The callback as `callbackText` writes it; null if the job has none. */
  readonly callbackJson: string | null
  readonly createdAtMs: number
  /** The size of the input: its tokens where they were counted, else an upper bound. */
  readonly inputTokens: number
}

/** A job that a node holds. Writes about it name the attempt, so that a stale holder cannot change anything. */
export interface ClaimedJob extends Job {
  /** 1 for the first claim of this job, and one more for each later one. */
  readonly attempt: number
  /** How many crashes of nodes count against this job: while it was held, and from the second on only while it ran. */
  readonly crashCount: number
  /** Whether no other job of the node counted in the last of them. */
  readonly crashedAlone: boolean
  /** The usage and errors of earlier runs (`queue/earlier-runs.ts`); absent unless one had to wait for a model server. */
  readonly earlierJson?: string
}

/** Why a job failed: the `code` of its `error` (SPEC §7 lists the causes). */
export type FailureCode =
  | 'timeout'
  | 'content_policy_violation'
  | 'model_error'
  | 'validation_error'
  | 'answer_not_checked'
  | 'cancelled'
  | 'internal_error'

/** The `error` of a failed job, as callers see it. It never holds a key or a header of an upstream. */
export interface JobError {
  readonly code: FailureCode
  /** A full sentence for people. */
  readonly message: string
  /** The HTTP status of the upstream's response, if there was one. */
  readonly upstream_status?: number
  /** The upstream's own message, cut to a few hundred characters. */
  readonly upstream_message?: string
  /** For `cancelled`: who cancelled it. Versions up to 0.2.0 did not store it. */
  readonly cancelled_by?: 'caller' | 'operator'
  /** For `validation_error`: how the answer violates the schema. */
  readonly errors?: readonly string[]
  /** For `validation_error` and `answer_not_checked`: the answer as the model returned it. */
  readonly raw_text?: RawText
}

/** A model's text. A long one is JSON text, because a thread has already escaped it. */
export type RawText = string | { readonly json: string }

export function rawTextJson(text: RawText): string {
  return typeof text === 'string' ? JSON.stringify(text) : text.json
}

/** The error as it is stored and sent. */
export function errorJson(error: JobError): string {
  const { raw_text, ...rest } = error
  if (raw_text === undefined) return JSON.stringify(rest)
  return `${JSON.stringify(rest).slice(0, -1)},"raw_text":${rawTextJson(raw_text)}}`
}

/** How an execution ended. `contentJson` is `response_content` as JSON text, so that it is stored and sent unchanged. */
export type Outcome =
  | { readonly status: 'completed'; readonly contentJson: string }
  | { readonly status: 'failed'; readonly error: JobError }

/** What an execution used. It is stored with the outcome, in the same transaction. */
export interface Usage {
  /** The target that answered, as `upstream/model`; null when none did, or for a cached response. */
  readonly target: string | null
  /** Tokens as the upstream counted them, summed over all calls. */
  readonly input_tokens: number
  readonly output_tokens: number
  /** Those of the input tokens that the upstream had cached; absent if none were. */
  readonly cached_input_tokens?: number
  /** Present if the answer was cut at a length limit. Versions up to 0.3 did not store it. */
  readonly finish_reason?: 'length'
  /** Calls to upstreams, including failed ones. */
  readonly calls: number
  readonly cache_hit: boolean
  /** Whether the model was asked again, with the errors of its answer. */
  readonly repaired: boolean
}

/** The usage of a job that finished without a call. */
export const NO_USAGE: Usage = {
  target: null,
  input_tokens: 0,
  output_tokens: 0,
  calls: 0,
  cache_hit: false,
  repaired: false,
}
