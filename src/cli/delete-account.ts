/** `parley accounts delete`: asks for the account's name, and deletes all of it. */
import { createInterface } from 'node:readline/promises'
import { ACCOUNT_NAME } from '../accounts/issue-key.ts'
import { deleteWholeAccount } from '../admin/actions/accounts.ts'
import { findAccount } from '../admin/actions/find-account.ts'
import type { DeletionProgress } from '../admin/bulk-actions.ts'
import { CommandError } from './command-error.ts'
import { noSuchAccount } from './no-such-account.ts'
import { printError, printLine } from './output.ts'
import { notScrubbed, scrubWords } from './scrub.ts'
import { onRecord, withOperatorStore } from './with-operator-store.ts'

export interface DeleteAccountOptions {
  readonly yes?: true
  readonly scrub: boolean
  readonly json?: true
  readonly config?: string
}

export async function deleteAccount(name: string, options: DeleteAccountOptions): Promise<void> {
  const { yes, scrub, json, config } = options
  const known =
    ACCOUNT_NAME.test(name) && (await withOperatorStore(config, (store) => findAccount(store, name)))
  if (!known) throw noSuchAccount(name)
  if (!yes) await askFor(name)
  const result = await onRecord(config, (store, clock) =>
    deleteWholeAccount(store, clock, { account: name, scrub, onProgress: progressOf() }),
  )
  if (result.kind === 'unknown') throw noSuchAccount(name)
  const { jobs, cancelled } = result
  if (result.kind === 'still used') {
    throw new CommandError(
      `New jobs of account ${name} kept coming in, so it is suspended and not deleted; ${jobs} of its jobs are. Revoke its keys (parley keys list), and try again.`,
    )
  }
  if (result.notScrubbed !== null) throw notScrubbed(`Account ${name}`, result.notScrubbed)
  if (json) return printLine(JSON.stringify({ deleted: true, jobs, cancelled, scrubbed: scrub }, null, 2))
  printLine(
    `Account ${name} is deleted, and ${jobs} jobs with it, of which ${cancelled} were cancelled. ${scrubWords(scrub)}`,
  )
}

async function askFor(name: string): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new CommandError(`There is no terminal to ask on. Add --yes to delete account ${name} for good.`)
  }
  printError(`This deletes account ${name} with its keys, jobs, secrets and usage, for good.`)
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const typed = await new Promise<string>((resolve) => {
      // Ctrl-C and Ctrl-D end the lines without an answer.
      lines.once('close', () => resolve(''))
      void lines.question('Type its name to go on: ').then(resolve)
    })
    if (typed.trim() !== name) throw new CommandError(`That is not ${name}. Nothing was changed.`)
  } finally {
    lines.close()
  }
}

const STEPS: Readonly<Record<DeletionProgress['step'], string>> = {
  waiting: 'Waiting until every node knows …',
  cancelling: 'Cancelling its jobs …',
  deleting: 'Deleting its jobs …',
  scrubbing: 'Scrubbing the disk; other writes wait …',
}
const EVERY_MS = 1000

/** A line for each stretch of the way, and one a second while jobs are deleted. */
function progressOf(): (progress: DeletionProgress) => void {
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
