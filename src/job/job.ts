/**
 * What a job is. This folder is pure: it knows no clock, no database and no network.
 *
 * Glossary (one word for one idea, from the database to the documents):
 *
 * - **job**: one conversation to be answered by a model, with everything needed to run it again.
 * - **message**: one turn of the conversation, `{ role, content }`.
 * - **batch**: several jobs created by one request, all or none of them.
 * - **account**: who owns jobs; it has a **tier** and any number of **keys**.
 * - **tier**: what an account may do: models, batch size, reads a minute, input tokens, share of the workers, caps.
 * - **cap**: what an account may use in a month, in jobs or in tokens; **usage**: what it has used.
 * - **status**: `pending` (waiting for a worker), `assigned` (a worker has it), then finally `completed` or `failed`.
 * - **accept**: to store a job durably; only then is its identifier promised to the caller.
 * - **claim**: a **node** (one running Parley process) takes a job; the claim's **attempt** number fences later writes.
 * - **turn**: a waiting job's place in the fair order between accounts; lower turns are claimed first.
 * - **run**: to answer a job once: cache, model, check. A run has one **outcome**.
 * - **settle**: to store the outcome, once and for ever, together with the callback that is owed.
 * - **give back**: to return a claimed job to the line without an outcome (a draining node, a dead node).
 * - **cancel**: an operator settles a job before its time, whoever holds it: it has failed with `cancelled`.
 * - **scrub**: to have what was deleted leave the disk, too, as far as the database can.
 * - **callback**: the POST that tells a caller's own server of an outcome.
 * - **upstream**: a configured model server; a **target** is an upstream plus the name the model has there.
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

/** SPEC §2.2. `schema` is the caller's text-for-text JSON value, already found acceptable at creation. */
export type ResponseFormat =
  | { readonly format: 'text' }
  | { readonly format: 'json'; readonly schema?: SchemaObject }

/** A caller's JSON Schema object, as parsed. Only `answer-schema.ts` looks inside. */
export type SchemaObject = { readonly [keyword: string]: unknown }

/** SPEC §2.4, as stored. `payloadJson` is JSON text, so that 64-bit integers and `1e400` come back as sent. */
export interface Callback {
  readonly url: string
  readonly headers: { readonly [name: string]: string }
  readonly payloadJson: string
}

/** An accepted job: all that a run needs. */
export interface Job {
  /** UUIDv7: creation time in its first 48 bits, so that stored jobs lie in the order of time. */
  readonly id: string
  readonly account: string
  /** The account's tier when the job was accepted; `gpt-auto` picks among this tier's models. */
  readonly tier: string
  /** The public model name the caller asked for. */
  readonly model: string
  readonly messages: readonly Message[]
  /** The messages as JSON text, made once though several need it: the store, the fingerprint, the call. */
  readonly messagesJson: string
  readonly responseFormat: ResponseFormat
  /** Seconds that the answer is kept for identical later jobs (SPEC §2.1 `message_cache_ttl`). */
  readonly cacheTtlS: number
  readonly callback: Callback | null
  readonly createdAtMs: number
  /** The input's size: its tokens where they were counted, else an upper bound (its bytes). */
  readonly inputTokens: number
}

/** A job in the hands of a node. Writes about it name the attempt, so that a stale holder can write nothing. */
export interface ClaimedJob extends Job {
  /** 1 for the first claim of this job, and one more for each later one. */
  readonly attempt: number
  /** How often a node died while it held this job; at `jobs.max_attempts` the job fails without another run. */
  readonly crashCount: number
}

/** Why a job failed: the `code` of its `error` (SPEC §7 lists the causes). */
export type FailureCode =
  | 'timeout'
  | 'content_policy_violation'
  | 'model_error'
  | 'validation_error'
  | 'cancelled'

/** The `error` of a failed job, as callers see it. It never holds a key or a header of an upstream. */
export interface JobError {
  readonly code: FailureCode
  /** A full sentence for people. */
  readonly message: string
  /** The HTTP status the upstream answered with, where it answered. */
  readonly upstream_status?: number
  /** The upstream's own words, cut to a few hundred characters. */
  readonly upstream_message?: string
  /** For `validation_error`: what the answer broke, one rule each. */
  readonly errors?: readonly string[]
  /** For `validation_error`: the answer as the model gave it. */
  readonly raw_text?: string
}

/** How a run ended. `contentJson` is `response_content` as JSON text, so that it is stored and sent unaltered. */
export type Outcome =
  | { readonly status: 'completed'; readonly contentJson: string }
  | { readonly status: 'failed'; readonly error: JobError }

/** What a run used, kept with its outcome and written in the same transaction. */
export interface Usage {
  /** The target that answered, as `upstream/model`; null when none did, or when the answer came from the cache. */
  readonly target: string | null
  /** Tokens as the upstream counted them, summed over all calls of the run. */
  readonly input_tokens: number
  readonly output_tokens: number
  /** Calls made to upstreams, failed ones included. */
  readonly calls: number
  readonly cache_hit: boolean
  /** Whether the model was shown its errors and asked once more. */
  readonly repaired: boolean
}

/** Of a job that ended without a call to a model server. */
export const NO_USAGE: Usage = {
  target: null,
  input_tokens: 0,
  output_tokens: 0,
  calls: 0,
  cache_hit: false,
  repaired: false,
}
