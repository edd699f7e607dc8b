/** `parley accounts delete`: asks for confirmation, then deletes an account with everything that it has. */
import { createInterface } from 'node:readline/promises'
import { ACCOUNT_NAME } from '../accounts/issue-key.ts'
import { deleteAccountAction } from '../admin/actions/accounts.ts'
import type { DeletionProgress } from '../admin/delete-account.ts'
import { findAccount } from '../admin/find-account.ts'
import { CommandError } from './command-error.ts'
import { noSuchAccount } from './no-such-account.ts'
import { printError, printLine } from './output.ts'
import { afterDeletion, notScrubbed } from './scrub.ts'
import { performAction, withOperatorStore } from './with-operator-store.ts'

export interface DeleteAccountOptions {
  readonly yes?: true
  readonly scrub: boolean
  readonly json?: true
  readonly config?: string
}

export async function deleteAccount(name: string, options: DeleteAccountOptions): Promise<void> {
  const { yes, scrub, json, config } = options
  const exists =
    ACCOUNT_NAME.test(name) && (await withOperatorStore(config, (store) => findAccount(store, name)))
  if (!exists) throw noSuchAccount(name)
  if (!yes) await confirm(name)
  const result = await performAction(config, (store, clock) =>
    deleteAccountAction(store, clock, { account: name, scrub, onProgress: progressPrinter() }),
  )
  if (result.kind === 'unknown') throw noSuchAccount(name)
  const { jobs, cancelled } = result
  if (result.kind === 'still used') {
    throw new CommandError(
      `Account ${name} was not deleted, because it kept receiving new jobs. It is suspended, and ${jobs} of its jobs were deleted. Revoke its keys (\`parley keys list\` shows them) and try again.`,
    )
  }
  if (result.notScrubbed !== null) throw notScrubbed(`Account ${name}`, result.notScrubbed)
  if (json) return printLine(JSON.stringify({ deleted: true, jobs, cancelled, scrubbed: scrub }, null, 2))
  printLine(
    `Account ${name} was deleted with ${jobs} ${jobs === 1 ? 'job' : 'jobs'}, ${cancelled} of them cancelled first. ${afterDeletion(scrub)}`,
  )
}

async function confirm(name: string): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new CommandError(
      `Deleting account ${name} needs confirmation, and there is no terminal. Pass --yes to delete it without being asked.`,
    )
  }
  printError(`This permanently deletes account ${name} with its keys, jobs, secrets and usage.`)
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

/** Prints a line for each step, and one a second while jobs are deleted. */
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
