/**
 * `parley copy` copies everything that has not expired from one database to another, which must be empty. Passwords can come
 * from a file or the environment, because other users of the machine can see the arguments of commands.
 */

import { readFileSync } from 'node:fs'
import { databaseProblems } from '../config/allowed-values.ts'
import { loadRetentionMs } from '../config/load.ts'
import type { Environment } from '../config/settings.ts'
import { DatabaseProblem } from '../store/database-problem.ts'
import { isPostgres, openTransferSource, openTransferTarget } from '../store/open.ts'
import { type TransferCounts, transferDatabase } from '../store/transfer.ts'
import { databaseName, Progress } from './database.ts'
import { CommandError, printError, printLine } from './input-output.ts'
import type { DefaultOptions } from './options.ts'

export interface CopyOptions extends DefaultOptions {
  readonly from: string
  readonly to: string
  readonly fromPasswordFile?: string
  readonly toPasswordFile?: string
}

export async function copy(options: CopyOptions): Promise<void> {
  const { json, config } = options
  const from = addressOf(
    { option: '--from', variable: 'PARLEY_FROM_PASSWORD', file: options.fromPasswordFile },
    options.from,
  )
  const to = addressOf(
    { option: '--to', variable: 'PARLEY_TO_PASSWORD', file: options.toPasswordFile },
    options.to,
  )
  const retentionMs = loadRetentionMs(process.env, config)
  const nowMs = Date.now()
  const startedMs = performance.now()
  const counts = await copyBetween(from, to, { nowMs, retentionMs })
  if (json) return printLine(JSON.stringify(asJson(counts), null, 2))
  const seconds = (performance.now() - startedMs) / 1000
  printLine(`Copied ${databaseName(from)} to ${databaseName(to)} in ${seconds.toFixed(1)} s.\n`)
  for (const line of summaryOf(counts, retentionMs)) printLine(line)
  printLine(
    `\nStart the servers with DATABASE_URL set to the new database. Do not start a server on the old one: its jobs would run twice.`,
  )
}

function addressOf(source: PasswordSource, address: string): string {
  const [problem] = databaseProblems(address)
  if (problem) throw new CommandError(problem.replace(/^database/, source.option))
  return withPassword(address, source, process.env)
}

export interface PasswordSource {
  readonly option: '--from' | '--to'
  readonly variable: string
  /** The file takes precedence over the variable. */
  readonly file: string | undefined
}

/** Returns the address unchanged if no password is given. */
export function withPassword(
  address: string,
  { option, variable, file }: PasswordSource,
  env: Environment,
): string {
  const password = file === undefined ? env[variable] : readPassword(`${option}-password-file`, file)
  if (password === undefined || password === '') return address
  if (!isPostgres(address)) {
    // The environment variable may be meant for another command, so it is ignored. A password file for SQLite is a mistake.
    if (file === undefined) return address
    throw new CommandError(`${option}-password-file: a SQLite file has no password. Leave the option out.`)
  }
  const url = new URL(address)
  if (url.password !== '' || url.searchParams.has('password')) {
    const from = file === undefined ? variable : `${option}-password-file`
    throw new CommandError(
      `${option}: both this URL and ${from} contain a password. Remove the one in the URL.`,
    )
  }
  url.password = encodeURIComponent(password)
  return url.href
}

function readPassword(option: string, file: string): string {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new CommandError(`${option}: ${file} cannot be read: ${(error as Error).message}.`)
  }
  const [line = ''] = text.split(/\r?\n/, 1)
  if (line === '')
    throw new CommandError(`${option}: the first line of ${file} is empty; it must contain the password.`)
  return line
}

async function copyBetween(from: string, to: string, expiry: { nowMs: number; retentionMs: number }) {
  const source = await about('--from', from, () => openTransferSource(from))
  try {
    const onNote = (message: string) => printError(`--to: ${message}`)
    const target = await about('--to', to, () => openTransferTarget(to, { expiry, onNote }))
    const progress = new Progress(process.stderr)
    try {
      return await transferDatabase(source, target, expiry, (counts) =>
        progress.show(counts.waiting + counts.ended + counts.expired),
      )
    } finally {
      progress.end()
      await target.close()
    }
  } finally {
    await source.close()
  }
}

async function about<T>(option: string, address: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open()
  } catch (error) {
    if (!(error instanceof DatabaseProblem)) throw error
    throw new CommandError(`${option} ${databaseName(address)}: ${error.message}`)
  }
}

function summaryOf(counts: Readonly<TransferCounts>, retentionMs: number): string[] {
  const held = counts.held > 0 ? ` (${counts.held} of them were assigned to a server)` : ''
  const days = retentionMs / 86_400_000
  const kept = days >= 1 ? `${Number(days.toFixed(1))} days` : `${retentionMs / 1000} s`
  const rows: [string, number, string][] = [
    ['accounts', counts.accounts, ''],
    ['keys', counts.keys, ''],
    ['open jobs', counts.waiting, held],
    ['finished jobs', counts.ended, ''],
    ['callbacks owed', counts.callbacksOwed, ''],
    ['callbacks done', counts.callbacksDone, ''],
    ['cached responses', counts.cachedResponses, ''],
    ['idempotency keys', counts.idempotencyKeys, ''],
    ['files', counts.files, ''],
    ['not copied', counts.expired, ` (finished jobs older than jobs.retention_seconds, ${kept})`],
  ]
  return rows.map(([name, count, more]) => `${name.padEnd(16)} ${String(count).padStart(10)}${more}`)
}

function asJson(counts: Readonly<TransferCounts>): object {
  const { accounts, keys, waiting, held, ended, expired, files } = counts
  const { callbacksOwed, callbacksDone, cachedResponses, idempotencyKeys } = counts
  return {
    accounts,
    keys,
    waiting,
    held,
    ended,
    expired,
    callbacks_owed: callbacksOwed,
    callbacks_done: callbacksDone,
    kept_answers: cachedResponses,
    idempotency_keys: idempotencyKeys,
    files,
  }
}
