/**
 * Defines admin actions. One declaration in `actions/` gives an action its route in the admin API, its description in the
 * OpenAPI document, its entry in the audit log and its command.
 */

import type { Clock } from '../clock.ts'
import { readBatchId, readJobId } from '../job/job-id.ts'
import type { Expiry } from '../store/expiry.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import type { Schema, Static } from '../typed-schema.ts'
import type { DeletionProgress } from './delete-account.ts'
import { ACCOUNT_NAME } from './fields.ts'
import { type Refusal, refusals } from './refusals.ts'

/** What the functions of an action use, in a server or in a command that works on the database directly. */
export interface ActionTools {
  readonly store: OperatorStore
  readonly clock: Clock
  readonly expiry: () => Expiry | Promise<Expiry>
  readonly tiers: () => readonly string[] | Promise<readonly string[]>
  /** Creates the reruns that were requested. Absent in a command, because running servers look for requests every two seconds. */
  readonly makeReruns?: () => Promise<void>
  /** Actions that take long call this repeatedly. */
  readonly onProgress: (progress: DeletionProgress) => void
}

/** The pattern accepts more than `makeKeyId` generates, so that IDs of other versions are valid. */
export const KEY_ID = /^\w{1,64}$/

/**
 * What an action can be about. It is part of the path, an argument of the command, and recorded in the logs. Text that cannot
 * name anything is refused without an entry in the audit log; `read` returns null for it.
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

/** The subject and the fields of an action, as its functions get them. */
export type Input<Kind extends SubjectKind | null, Fields> = (Kind extends SubjectKind
  ? Readonly<Record<(typeof SUBJECTS)[Kind]['field'], string>>
  : unknown) &
  Static<Fields>

export type AnyInput = Readonly<Record<string, unknown>>

export interface AdminAction<Kind extends SubjectKind | null, Fields, Result> {
  /** The kind of subject. Null if the action has none; its fields may still name an account. */
  readonly about: Kind
  /** The fields of the request body (or of the query of a DELETE) and of the command's options. */
  readonly fields: Fields
  /** The action's name in the audit log and in the server's log. */
  readonly what: string
  /** Replaces `what` if the name depends on the input. */
  whatOf?(input: Input<Kind, Fields>): string
  /** Details for the audit log: never contents or secrets. */
  details?(input: Input<Kind, Fields>): object
  /** Refuses input that the schema cannot, without an entry in the audit log. */
  check?(input: Input<Kind, Fields>): Refusal | null
  run(input: Input<Kind, Fields>, tools: ActionTools): Promise<Result | Refusal>
  /** The outcome in a few words, for the audit log. */
  outcome(result: Result): string
  /** Fields for the server's log, in addition to the subject. */
  log?(input: Input<Kind, Fields>, result: Result): object
  /** Why the action was only carried out in part; null if it was carried out in full. */
  shortfall?(input: Input<Kind, Fields>, result: Result): Refusal | null
  /** True if the action cancels jobs: the server then stops its own runs of them before it responds. */
  readonly cancels?: true
  readonly route?: ActionRoute<Input<Kind, Fields>, Result>
  readonly command?: ActionCommand
  /** Returns what the command prints. */
  print?(result: Result, input: Input<Kind, Fields>): Printed
}

/** Any action, for code that works with all of them. */
export type AnyAction = AdminAction<SubjectKind | null, Schema, unknown>

export interface ActionRoute<In, Result> {
  readonly method: 'get' | 'post' | 'delete'
  /** The path below `/admin/api`. */
  readonly path: string
  readonly operationId: string
  readonly summary: string
  readonly description: string
  /** The status of success; 200 if absent. */
  readonly status?: number
  /** Describes the response. */
  readonly success: string
  /** The schema of the data; absent if the response is a download. */
  readonly data?: Schema
  /** True if the route documents 409. */
  readonly conflicts?: true
  /** False if only the command has the fields. */
  readonly takesFields?: false
  /** Returns what is wrong with the body, if the schema's message would be unclear. */
  checkBody?(body: unknown): string | null
  answer(result: Result, input: In): RouteAnswer
}

export interface Download {
  readonly name: string
  readonly bytes: number
  readonly pieces: AsyncIterable<Uint8Array>
}

export interface RouteAnswer {
  /** Sent instead of the envelope with its data. */
  readonly download?: Download
  /** The message of the response; `success` if absent. */
  readonly message?: string
  /** A value, or its JSON text. */
  readonly data: object | string
}

/** The flags of an option or the form of an argument, its help, and values that shells complete. */
export type Described = readonly [form: string, help: string, usual?: readonly string[]]

export interface ActionCommand {
  /** The command's name, such as `accounts tier`. */
  readonly name: string
  readonly description: string
  /** The arguments by field. */
  readonly arguments?: Readonly<Record<string, Described>>
  /** The options by field. A schema reads the value; without one the value is text, or true for a flag. */
  readonly options?: Readonly<Record<string, Described>>
  /** The options that must be passed. */
  readonly required?: readonly string[]
  /** Text between the options and the examples. */
  readonly help?: string
  readonly examples: readonly string[]
  /** True if the operator must confirm by typing the name of the account, or pass --yes. */
  readonly confirms?: true
  /** For a command with two actions: returns the other one, null for this one, or what is wrong with the options. */
  choose?(input: AnyInput): AnyAction | string | null
}

export interface Printed {
  readonly json: object
  readonly text: string
}

/** Lets the compiler infer the types of an action's input and result from the schema and from `run`. */
export function adminAction<Kind extends SubjectKind | null, Fields extends Schema, Result>(
  action: AdminAction<Kind, Fields, Result>,
): AdminAction<Kind, Fields, Result> {
  return action
}
