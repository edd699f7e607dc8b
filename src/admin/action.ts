/**
 * The type of admin actions. Each action is declared once, in `actions/`. From the declaration, it gets its route in the admin
 * API, its documentation, its entry in the audit log and its command.
 */

import type { Clock } from '../clock.ts'
import { readBatchId, readJobId } from '../job/job-id.ts'
import type { Expiry } from '../store/expiry.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import type { Schema, Static } from '../typed-schema.ts'
import type { DeletionProgress } from './delete-account.ts'
import { ACCOUNT_NAME } from './fields.ts'
import { type Refusal, refusals } from './refusals.ts'

/** What actions work with, in a server or in a command that opens the database itself. */
export interface ActionTools {
  readonly store: OperatorStore
  readonly clock: Clock
  readonly expiry: () => Expiry | Promise<Expiry>
  readonly tiers: () => readonly string[] | Promise<readonly string[]>
  /** Creates the requested reruns at once. Absent in a command: running servers look for requests every two seconds. */
  readonly makeReruns?: () => Promise<void>
  /** Called repeatedly by actions that take long. */
  readonly onProgress: (progress: DeletionProgress) => void
}

/** Accepts more than `makeKeyId` generates, because other versions may generate different IDs. */
export const KEY_ID = /^\w{1,64}$/

/**
 * What an action can be about. The subject is in the route's path, in the command's arguments and in the logs. `read` returns
 * null for a text that cannot be the name or ID of any subject; the action is then refused without an entry in the audit log.
 */
export const SUBJECTS = {
  token: {
    field: 'tokenId',
    read: (text: string) => (KEY_ID.test(text) ? text : null),
    unknown: refusals.noSuchToken,
  },
  account: {
    field: 'account',
    read: (text: string) => (ACCOUNT_NAME.test(text) ? text : null),
    unknown: refusals.noSuchAccount,
  },
  job: { field: 'jobId', read: readJobId, unknown: refusals.noSuchJob },
  callback: { field: 'jobId', read: readJobId, unknown: refusals.noSuchCallback },
  batch: { field: 'batchId', read: readBatchId, unknown: refusals.noSuchBatch },
  key: {
    field: 'keyId',
    read: (text: string) => (KEY_ID.test(text) ? text : null),
    unknown: refusals.noSuchKey,
  },
} as const

export type SubjectKind = keyof typeof SUBJECTS

/** What the functions of an action get: the subject and the fields. */
export type Input<Kind extends SubjectKind | null, Fields> = (Kind extends SubjectKind
  ? Readonly<Record<(typeof SUBJECTS)[Kind]['field'], string>>
  : unknown) &
  Static<Fields>

export type AnyInput = Readonly<Record<string, unknown>>

export interface AdminAction<Kind extends SubjectKind | null, Fields, Result> {
  /** The kind of subject; null if the action has none. Even then, a field may contain the name of an account. */
  readonly about: Kind
  /** The schema of the request body (of the query, for DELETE) and of the command's options. */
  readonly fields: Fields
  /** The name of the action in the audit log and in the server's log. */
  readonly what: string
  /** Replaces `what` if the name of the action depends on its input. */
  whatOf?(input: Input<Kind, Fields>): string
  /** Details for the audit log. They never contain secrets or contents of jobs. */
  details?(input: Input<Kind, Fields>): object
  /** Refuses input for a reason that a schema cannot express. A refusal is not recorded in the audit log. */
  check?(input: Input<Kind, Fields>): Refusal | null
  run(input: Input<Kind, Fields>, tools: ActionTools): Promise<Result | Refusal>
  /** Describes the outcome in a few words, for the audit log. */
  outcome(result: Result): string
  /** Returns fields for the server's log, in addition to the subject. */
  log?(input: Input<Kind, Fields>, result: Result): object
  /** Returns why the action was only partly carried out; null if it was fully carried out. */
  shortfall?(input: Input<Kind, Fields>, result: Result): Refusal | null
  /** True if the action cancels jobs. The server then aborts their executions on this node before it responds. */
  readonly cancels?: true
  readonly route?: ActionRoute<Input<Kind, Fields>, Result>
  readonly command?: ActionCommand
  print?(result: Result, input: Input<Kind, Fields>): Printed
}

/** An action of any type, for code that handles all of them. */
export type AnyAction = AdminAction<SubjectKind | null, Schema, unknown>

export interface ActionRoute<In, Result> {
  readonly method: 'get' | 'post' | 'delete'
  /** The path below `/admin/api`. */
  readonly path: string
  readonly operationId: string
  readonly summary: string
  readonly description: string
  /** The HTTP status of success; 200 if absent. */
  readonly status?: number
  /** The description of the response in the documentation. */
  readonly success: string
  /** The schema of the response's data; absent if the response is a download. */
  readonly data?: Schema
  /** True if the route can respond with 409. */
  readonly conflicts?: true
  /** False if only the command has the fields. */
  readonly takesFields?: false
  /** Returns what is wrong with the body, where the schema's own message would be unclear. */
  checkBody?(body: unknown): string | null
  answer(result: Result, input: In): RouteAnswer
}

export interface Download {
  readonly name: string
  readonly bytes: number
  readonly pieces: AsyncIterable<Uint8Array>
}

export interface RouteAnswer {
  /** A file that is sent instead of the usual JSON. */
  readonly download?: Download
  /** The message of the response; `success` if absent. */
  readonly message?: string
  /** A value, or JSON text. */
  readonly data: object | string
}

/** The flags of an option or the form of an argument, its help text, and values for completion in shells. */
export type Described = readonly [form: string, help: string, usual?: readonly string[]]

export interface ActionCommand {
  /** The full name of the command, such as `accounts tier`. */
  readonly name: string
  readonly description: string
  /** The arguments, by field. */
  readonly arguments?: Readonly<Record<string, Described>>
  /**
   * The options, by field. The field's schema determines how the value is parsed. Without a schema, the value is text, or true
   * for a flag.
   */
  readonly options?: Readonly<Record<string, Described>>
  /** The options that are required. */
  readonly required?: readonly string[]
  /** Help text between the options and the examples. */
  readonly help?: string
  readonly examples: readonly string[]
  /** True if the operator must type the name of the account to confirm, or pass --yes. */
  readonly confirms?: true
  /**
   * For a command that can perform a second action: returns that action, null for the first one, or what is wrong with the
   * options.
   */
  choose?(input: AnyInput): AnyAction | string | null
}

export interface Printed {
  readonly json: object
  readonly text: string
}

/** Returns the action unchanged. The compiler infers the types of its input and its result. */
export function adminAction<Kind extends SubjectKind | null, Fields extends Schema, Result>(
  action: AdminAction<Kind, Fields, Result>,
): AdminAction<Kind, Fields, Result> {
  return action
}
