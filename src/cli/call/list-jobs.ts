/** `parley jobs list`: lists the jobs of the API key's account. */
import type { JobSummary } from '../../../client/src/index.ts'
import { printLine } from '../output.ts'
import { printable } from '../printable.ts'
import { table } from '../table.ts'
import { connect } from './connection.ts'
import { EXIT } from './exit-code.ts'
import { interruptible } from './interruptible.ts'
import { printJson } from './print-job.ts'
import type { ServerOptions } from './server-options.ts'

export interface ListJobsOptions extends ServerOptions {
  readonly status?: JobSummary['status']
  readonly limit: number
  readonly json?: true
}

const MAX_PAGE = 100

/** Resolves with the exit code. */
export async function listJobs({ status, limit, json, ...server }: ListJobsOptions): Promise<number> {
  const parley = connect(server)
  const jobs = await interruptible(
    async (signal) => {
      const found: JobSummary[] = []
      for await (const job of parley.messages.list({ status, limit: Math.min(limit, MAX_PAGE), signal })) {
        found.push(job)
        if (found.length === limit) break
      }
      return found
    },
    () => 'Interrupted.',
  )
  if (json) printJson(jobs)
  else if (jobs.length === 0) printLine(status ? `No job is ${status}.` : 'The account has no jobs.')
  else
    printLine(
      table([['JOB ID', 'STATUS', 'MODEL', 'CREATED', 'ENDED', 'ERROR', 'CALLBACK'], ...jobs.map(rowOf)]),
    )
  return EXIT.completed
}

function rowOf({ job_id, status, model, created_at, ended_at, error_code, callback }: JobSummary): string[] {
  const ended = ended_at === null ? '' : timeOf(ended_at)
  return [job_id, status, printable(model), timeOf(created_at), ended, error_code ?? '', callback ?? '']
}

function timeOf(unixS: number): string {
  return new Date(unixS * 1000).toISOString().replace('.000Z', 'Z')
}
