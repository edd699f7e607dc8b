/** `parley jobs`: cancelling and deleting, beside running servers. */
import { ACCOUNT_NAME } from '../accounts/issue-key.ts'
import { cancelJob, cancelJobsOf, deleteJob as deletingJob } from '../admin/actions/jobs.ts'
import { loadRetentionMs } from '../config/load.ts'
import { isJobId } from '../job/job-id.ts'
import { CommandError } from './command-error.ts'
import { noSuchAccount } from './no-such-account.ts'
import { printLine } from './output.ts'
import { notScrubbed, scrubWords } from './scrub.ts'
import { onRecord } from './with-operator-store.ts'

export interface CancelJobsOptions {
  readonly account?: string
  readonly running?: true
  readonly json?: true
  readonly config?: string
}

export async function cancelJobs(jobId: string | undefined, options: CancelJobsOptions): Promise<void> {
  const { account, running } = options
  if ((jobId === undefined) === (account === undefined)) {
    throw new CommandError('Name either the id of one job, or --account NAME.')
  }
  if (jobId !== undefined && running) {
    throw new CommandError('--running goes with --account: one job is cancelled whether it waits or runs.')
  }
  if (jobId !== undefined) await cancelOne(jobId, options)
  else await cancelAllOf(account ?? '', options)
}

async function cancelOne(jobId: string, { json, config }: CancelJobsOptions): Promise<void> {
  if (!isJobId(jobId)) throw noSuchJob(jobId)
  const expiry = { nowMs: Date.now(), retentionMs: loadRetentionMs(process.env, config) }
  const result = await onRecord(config, (store) => cancelJob(store, jobId, expiry))
  if (result === 'unknown') throw noSuchJob(jobId)
  if (result === 'ended before') {
    throw new CommandError(`Job ${jobId} has ended. Nothing was changed.`)
  }
  if (json) return printLine(JSON.stringify({ cancelled: 1 }, null, 2))
  printLine(`Job ${jobId} is cancelled. A server that runs it ends its call within a second.`)
}

async function cancelAllOf(account: string, { running: runs, json, config }: CancelJobsOptions) {
  const running = runs === true
  if (!ACCOUNT_NAME.test(account)) throw noSuchAccount(account)
  const cancelled = await onRecord(config, (store, clock) => cancelJobsOf(store, clock, { account, running }))
  if (cancelled === null) throw noSuchAccount(account)
  if (json) return printLine(JSON.stringify({ cancelled }, null, 2))
  const which = running ? 'waited or ran' : 'waited'
  if (cancelled === 0) return printLine(`No job of account ${account} ${which}. Nothing was changed.`)
  printLine(
    `${cancelled} ${cancelled === 1 ? 'job' : 'jobs'} of account ${account} that ${which} ${cancelled === 1 ? 'is' : 'are'} cancelled.`,
  )
}

export interface DeleteJobOptions {
  readonly scrub: boolean
  readonly json?: true
  readonly config?: string
}

export async function deleteJob(jobId: string, { scrub, json, config }: DeleteJobOptions): Promise<void> {
  if (!isJobId(jobId)) throw noSuchJob(jobId)
  const expiry = { nowMs: Date.now(), retentionMs: loadRetentionMs(process.env, config) }
  const result = await onRecord(config, (store) => deletingJob(store, { jobId, scrub }, expiry))
  if (result.kind === 'unknown') throw noSuchJob(jobId)
  if (result.kind === 'not ended') {
    throw new CommandError(`Job ${jobId} has not ended. Cancel it first: parley jobs cancel ${jobId}`)
  }
  if (result.notScrubbed !== null) throw notScrubbed(`Job ${jobId}`, result.notScrubbed)
  if (json) return printLine(JSON.stringify({ deleted: true, scrubbed: scrub }, null, 2))
  printLine(`Job ${jobId} is deleted. ${scrubWords(scrub)}`)
}

function noSuchJob(jobId: string): CommandError {
  return new CommandError(`There is no job ${jobId}: the id is wrong, or the job has expired.`)
}
