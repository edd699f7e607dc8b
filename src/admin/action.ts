/**
 * Defines admin actions. One declaration in `actions/` determines the route, its documentation, the audit entry and the
 * command.
 */
import type { Clock } from '../clock.ts'
import { readBatchId, readJobId } from '../job/job-id.ts'
import type { Expiry } from '../store/expiry.ts'
import type { OperatorStore } from '../store/operator-store.ts'
import type { Schema, Static } from '../typed-schema.ts'
import type { DeletionProgress } from './deletion.ts'
import { ACCOUNT_NAME } from './fields.ts'
import { type Refusal, refusals } from './refusals.ts'

/** A server and a command that opens the database itself pass these tools to actions. */
export interface ActionTools {
  readonly store: OperatorStore
  readonly clock: Clock
  readonly expiry: () => Expiry | Promise<Expiry>
  readonly tiers: () => readonly string[] | Promise<readonly string[]>
  /** Creates the requested reruns at once. Commands cannot do so; running servers look for requests every two seconds. */
  readonly makeReruns?: () => Promise<void>
  /** Reports the progress of actions that take long. */
  readonly onProgress: (progress: DeletionProgress) => void
}

/** Accepts more than `makeKeyId` generates, because keys of other versions may have different IDs. */
export const KEY_ID = /^\w{1,64}$/

/** `read` returns null for a text that cannot be such a name or ID. The action is then refused without an audit entry. */
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

/** The functions of an action get its subject and its fields in one object. */
export type Input<Kind extends SubjectKind | null, Fields> = (Kind extends SubjectKind
  ? Readonly<Record<(typeof SUBJECTS)[Kind]['field'], string>>
  : unknown) &
  Static<Fields>

export type AnyInput = Readonly<Record<string, unknown>>

export interface AdminAction<Kind extends SubjectKind | null, Fields, Result> {
  /** `about` is null if the action has no subject. Even then, a field may contain the name of an account. */
  readonly about: Kind
  readonly fields: Fields
  readonly what: string
  /** Replaces `what` if the name depends on the input. */
  whatOf?(input: Input<Kind, Fields>): string
  /** Returns details for the audit log, which must not contain secrets or contents of jobs. */
  details?(input: Input<Kind, Fields>): object
  /** Refuses input that a schema cannot reject. Such a refusal is not in the audit log. */
  check?(input: Input<Kind, Fields>): Refusal | null
  run(input: Input<Kind, Fields>, tools: ActionTools): Promise<Result | Refusal>
  /** Describes the result in a few words, for the audit log. */
  outcome(result: Result): string
  /** Returns additional fields for the server's log, which already has the subject. */
  log?(input: Input<Kind, Fields>, result: Result): object
  /** Returns what the action could not do although the rest is done; null if nothing is missing. */
  shortfall?(input: Input<Kind, Fields>, result: Result): Refusal | null
  /** `cancels` is true if the action cancels jobs. The server then aborts their executions on this node before it responds. */
  readonly cancels?: true
  readonly route?: ActionRoute<Input<Kind, Fields>, Result>
  readonly command?: ActionCommand
  print?(result: Result, input: Input<Kind, Fields>): Printed
}

export type AnyAction = AdminAction<SubjectKind | null, Schema, unknown>

export interface ActionRoute<In, Result> {
  readonly method: 'get' | 'post' | 'delete'
  /** The path of the route begins with `/admin/api`, which is omitted here. */
  readonly path: string
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly status?: number
  readonly success: string
  /** `data` is absent if the response is a download. */
  readonly data?: Schema
  readonly conflicts?: true
  /** `takesFields` is false if only the command has the fields. */
  readonly takesFields?: false
  /** Returns an error message for a body if the schema's own message would be unclear; otherwise null. */
  checkBody?(body: unknown): string | null
  answer(result: Result, input: In): RouteAnswer
}

export interface Download {
  readonly name: string
  readonly bytes: number
  readonly pieces: AsyncIterable<Uint8Array>
}

export interface RouteAnswer {
  /** A download replaces the usual JSON. */
  readonly download?: Download
  /** The default is `success` of the route. */
  readonly message?: string
  /** `data` is a value or JSON text. */
  readonly data: object | string
}

/** The form is that of an argument, or the flags of an option. The last element lists values that shells complete. */
export type Described = readonly [form: string, help: string, usual?: readonly string[]]

export interface ActionCommand {
  /** The name has all words after `parley`, such as `accounts tier`. */
  readonly name: string
  readonly description: string
  readonly arguments?: Readonly<Record<string, Described>>
  /** The schema of the field determines how the value is parsed. A field without a schema is a text, or true for a flag. */
  readonly options?: Readonly<Record<string, Described>>
  readonly required?: readonly string[]
  /** The command prints this text between its options and its examples. */
  readonly help?: string
  readonly examples: readonly string[]
  /** `confirms` is true if the operator must type the account's name to confirm, or pass --yes. */
  readonly confirms?: true
  /** Returns the second action of the command, null for the first one, or what is wrong with the options. */
  choose?(input: AnyInput): AnyAction | string | null
}

export interface Printed {
  readonly json: object
  readonly text: string
}

/** Returns the action unchanged. The call lets the compiler infer the types of input and result. */
export function adminAction<Kind extends SubjectKind | null, Fields extends Schema, Result>(
  action: AdminAction<Kind, Fields, Result>,
): AdminAction<Kind, Fields, Result> {
  return action
}
