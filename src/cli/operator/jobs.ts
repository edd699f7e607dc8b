/** The options of `parley jobs`: operators cancel and delete jobs of any account, callers list their own. */
import type { Command } from 'commander'
import { addJobList } from '../call/options.ts'
import type { CancelJobsOptions, DeleteJobOptions } from '../jobs.ts'
import { config, examples, noScrub, SCRUB_HELP } from './shared-options.ts'

export function addJobs(jobs: Command, exit: (code: number) => void): void {
  addJobList(jobs.command('list'), exit)
  jobs
    .command('cancel')
    .description('on the database: cancel a queued or running job, or the jobs of an account')
    .argument('[job-id]', 'the job to cancel')
    .option('--account <name>', 'cancel all queued jobs of this account')
    .option('--running', 'with --account: also cancel its running jobs')
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      `
A cancelled job fails with the code \`cancelled\`, and its callback is sent. Its call to the model server ends within a second.`,
    )
    .addHelpText(
      'after',
      examples('parley jobs cancel 019a5d3e-…', 'parley jobs cancel --account acme --running'),
    )
    .action(async (jobId: string | undefined, options: CancelJobsOptions) =>
      (await import('../jobs.ts')).cancelJobs(jobId, options),
    )
  jobs
    .command('delete')
    .description(
      'on the database: permanently delete a finished job with its contents, cached response and callback',
    )
    .argument('<job-id>', 'the job to delete')
    .addOption(noScrub())
    .option('--json', 'print a JSON object')
    .addOption(config())
    .addHelpText('after', `\nIts usage stays counted.\n${SCRUB_HELP}`)
    .addHelpText(
      'after',
      examples('parley jobs delete 019a5d3e-…', 'parley jobs delete 019a5d3e-… --no-scrub'),
    )
    .action(async (jobId: string, options: DeleteJobOptions) =>
      (await import('../jobs.ts')).deleteJob(jobId, options),
    )
}
