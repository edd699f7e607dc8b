/** What `parley jobs` takes. */
import type { Command } from 'commander'
import type { CancelJobsOptions, DeleteJobOptions } from '../jobs.ts'
import { config, examples, noScrub, SCRUB_HELP } from './parts.ts'

export function addJobs(jobs: Command): void {
  jobs
    .command('cancel')
    .description('end a job that waits or runs, or those of an account')
    .argument('[job-id]', 'which job')
    .option('--account <name>', 'all jobs of this account that wait, instead')
    .option('--running', 'of these, those that run, too')
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText(
      'after',
      `
A cancelled job has failed with \`cancelled\`, and its callback is sent. Its call to the model server ends within a second.`,
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
    .description('delete a job that has ended, with its contents, kept answer and callback, for good')
    .argument('<job-id>', 'which job')
    .addOption(noScrub())
    .option('--json', 'as a JSON object')
    .addOption(config())
    .addHelpText('after', `\nWhat it used stays counted.\n${SCRUB_HELP}`)
    .addHelpText(
      'after',
      examples('parley jobs delete 019a5d3e-…', 'parley jobs delete 019a5d3e-… --no-scrub'),
    )
    .action(async (jobId: string, options: DeleteJobOptions) =>
      (await import('../jobs.ts')).deleteJob(jobId, options),
    )
}
