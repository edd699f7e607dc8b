/**
 * Performs an admin action as a command. The command works directly on the database, whether or not servers run, and adds an
 * entry to the audit log.
 */

import { randomBytes } from 'node:crypto'
import { hostname, userInfo } from 'node:os'
import { createInterface } from 'node:readline/promises'
import { findAccount } from '../admin/account-view.ts'
import { type AnyAction, type AnyInput, SUBJECTS } from '../admin/action.ts'
import { AuditLog } from '../admin/audit-log.ts'
import type { DeletionProgress } from '../admin/deletion.ts'
import { isOperatorName, MAX_CHARACTERS } from '../admin/operator-name.ts'
import { Refusal, refusals } from '../admin/refusals.ts'
import { type Clock, systemClock } from '../clock.ts'
import { jobIdMaker } from '../job/job-id.ts'
import { withOperatorStore } from './database.ts'
import { CommandError, printError, printLine } from './input-output.ts'
import type { DefaultOptions } from './options.ts'

export interface ActionOptions extends DefaultOptions {
  readonly yes?: true
}

/** @param given arguments and options of the action's command, by field */
export async function runAction(
  declared: AnyAction,
  given: AnyInput,
  { json, config, yes }: ActionOptions,
): Promise<void> {
  const action = declared.command?.choose?.(given) ?? declared
  if (typeof action === 'string') throw new CommandError(action)
  const input = inputOf(action, given)
  assertNone(action.check?.(input))
  if (action.command?.confirms) await confirm(String(input.account), yes === true, config)
  const result = await perform(action, input, config)
  assertNone(result instanceof Refusal ? result : action.shortfall?.(input, result))
  const printed = action.print?.(result, input)
  if (printed) printLine(json ? JSON.stringify(printed.json, null, 2) : printed.text)
}

function assertNone(refusal: Refusal | null | undefined): void {
  if (refusal) throw new CommandError(refusal.message)
}

/** The input contains the subject and the action's fields. Options of the command itself, such as `--yes`, are left out. */
function inputOf({ about, fields }: AnyAction, given: AnyInput): AnyInput {
  const names = Object.keys(fields.properties as object)
  const values = Object.entries(given).filter(([name]) => names.includes(name))
  if (about === null) return Object.fromEntries(values)
  const { field, read, unknown } = SUBJECTS[about]
  const text = String(given[field])
  const subject = read(text)
  if (subject === null) throw new CommandError(unknown(text).message)
  return { [field]: subject, ...Object.fromEntries(values) }
}

/** A command must stay alive while it waits. The timers of the server's clock would not keep it alive. */
const clock: Clock = {
  ...systemClock,
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    return () => clearTimeout(timer)
  },
}

function perform(action: AnyAction, input: AnyInput, config: string | undefined): Promise<unknown> {
  const who = operatorName(process.env)
  const makeId = jobIdMaker(clock, (bytes) => randomBytes(bytes).toString('hex'))
  const expiry = async () => {
    const { loadRetentionMs } = await import('../config/load.ts')
    return { nowMs: clock.nowMs(), retentionMs: loadRetentionMs(process.env, config) }
  }
  const tiers = async () => {
    const { loadTierNames } = await import('../config/load.ts')
    return loadTierNames(process.env, config)
  }
  return withOperatorStore(config, (store) =>
    new AuditLog(store, clock, makeId).perform(who, action, input, {
      store,
      clock,
      expiry,
      tiers,
      onProgress: progressPrinter(),
    }),
  )
}

/** The audit log records this name. PARLEY_OPERATOR replaces the user name, for people who share a user. */
function operatorName({ PARLEY_OPERATOR: given }: NodeJS.ProcessEnv): string {
  const name = given ? given.trim() : userName()
  if (!isOperatorName(name)) {
    throw new CommandError(
      `PARLEY_OPERATOR: must be 1 to ${MAX_CHARACTERS} characters, without control characters.`,
    )
  }
  return `${name}@${hostname()} (command line)`
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // In containers, the user often has no name.
    return `user ${process.getuid?.() ?? 'unknown'}`
  }
}

async function confirm(name: string, isConfirmed: boolean, config: string | undefined): Promise<void> {
  const account = await withOperatorStore(config, (store) => findAccount(store, name, clock.nowMs()))
  assertNone(account === null ? refusals.noSuchAccount(name) : null)
  if (isConfirmed) return
  if (!process.stdin.isTTY) {
    throw new CommandError(
      `Deleting account ${name} needs confirmation, and there is no terminal. Pass --yes to delete it without being asked.`,
    )
  }
  printError(`This permanently deletes account ${name} with its keys, jobs and secrets.`)
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const typed = await new Promise<string>((resolve) => {
      // Ctrl-C and Ctrl-D close the input without an answer.
      lines.once('close', () => resolve(''))
      void lines.question('Type the name of the account to confirm: ').then(resolve)
    })
    if (typed.trim() !== name) throw new CommandError(`The name does not match ${name}. Nothing was deleted.`)
  } finally {
    lines.close()
  }
}

const STEPS: Readonly<Record<DeletionProgress['step'], string>> = {
  waiting: 'Waiting until every node applies the change …',
  cancelling: 'Cancelling its jobs …',
  deleting: 'Deleting its jobs …',
  scrubbing: 'Scrubbing the database; other writes wait …',
}
const EVERY_MS = 1000

/** Prints a line when a step begins, and one line per second while jobs are deleted. */
function progressPrinter(): (progress: DeletionProgress) => void {
  let shown: DeletionProgress['step'] | null = null
  let shownMs = 0
  return ({ step, deleted }) => {
    const nowMs = performance.now()
    if (step === shown && nowMs < shownMs + EVERY_MS) return
    printError(step === shown ? `${STEPS[step]} ${deleted}` : STEPS[step])
    shown = step
    shownMs = nowMs
  }
}
