/** `parley jobs`: cancels and deletes jobs. Servers may be running. */
import { ACCOUNT_NAME } from '../accounts/issue-key.ts'
import { cancelJobsAction } from '../admin/actions/accounts.ts'
import { cancelJobAction, deleteJobAction } from '../admin/actions/jobs.ts'
import { readJobId } from '../job/job-id.ts'
import { CommandError } from './command-error.ts'
import { noSuchAccount } from './no-such-account.ts'
import { printLine } from './output.ts'
import { afterDeletion, notScrubbed } from './scrub.ts'
import { performAction } from './with-operator-store.ts'

export interface CancelJobsOptions {
  readonly account?: string
  readonly running?: true
  readonly json?: true
  readonly config?: string
}

export async function cancelJobs(jobId: string | undefined, options: CancelJobsOptions): Promise<void> {
  const { account, running } = options
  if ((jobId === undefined) === (account === undefined)) {
    throw new CommandError('Pass either a job ID or --account NAME.')
  }
  if (jobId !== undefined && running) {
    throw new CommandError(
      '--running can only be used with --account. A single job is cancelled whether it is queued or running.',
    )
  }
  if (jobId !== undefined) await cancelOne(jobId, options)
  else await cancelAllOf(account ?? '', options)
}

async function cancelOne(given: string, { json, config }: CancelJobsOptions): Promise<void> {
  const jobId = readJobId(given)
  if (jobId === null) throw noSuchJob(given)
  const result = await performAction(config, (store, clock) => cancelJobAction(store, jobId, clock.nowMs()))
  if (result === 'unknown') throw noSuchJob(jobId)
  if (result === 'ended before') {
    throw new CommandError(`Job ${jobId} has already finished, so it was not cancelled.`)
  }
  if (json) return printLine(JSON.stringify({ cancelled: 1 }, null, 2))
  printLine(
    `Job ${jobId} was cancelled. If a server is running it, its call to the model ends within a second.`,
  )
}

async function cancelAllOf(account: string, { running: all, json, config }: CancelJobsOptions) {
  const running = all === true
  if (!ACCOUNT_NAME.test(account)) throw noSuchAccount(account)
  const cancelled = await performAction(config, (store, clock) =>
    cancelJobsAction(store, clock, { account, running }),
  )
  if (cancelled === null) throw noSuchAccount(account)
  if (json) return printLine(JSON.stringify({ cancelled }, null, 2))
  const kind = running ? 'queued or running' : 'queued'
  if (cancelled === 0) return printLine(`Account ${account} has no ${kind} jobs, so none were cancelled.`)
  printLine(
    `${cancelled} ${kind} ${cancelled === 1 ? 'job' : 'jobs'} of account ${account} ${cancelled === 1 ? 'was' : 'were'} cancelled.`,
  )
}

export interface DeleteJobOptions {
  readonly scrub: boolean
  readonly json?: true
  readonly config?: string
}

export async function deleteJob(given: string, { scrub, json, config }: DeleteJobOptions): Promise<void> {
  const jobId = readJobId(given)
  if (jobId === null) throw noSuchJob(given)
  const result = await performAction(config, (store) => deleteJobAction(store, { jobId, scrub }))
  if (result.kind === 'unknown') throw noSuchJob(jobId)
  if (result.kind === 'not ended') {
    throw new CommandError(`Job ${jobId} has not finished. Cancel it first: parley jobs cancel ${jobId}`)
  }
  if (result.notScrubbed !== null) throw notScrubbed(`Job ${jobId}`, result.notScrubbed)
  if (json) return printLine(JSON.stringify({ deleted: true, scrubbed: scrub }, null, 2))
  printLine(`Job ${jobId} was deleted. ${afterDeletion(scrub)}`)
}

function noSuchJob(jobId: string): CommandError {
  return new CommandError(`Job ${jobId} not found: the ID is wrong, or the job has expired.`)
}
