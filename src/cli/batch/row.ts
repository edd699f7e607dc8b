/** A line of the results: what became of a line of the input. */
import type { EndedJob, JobError } from '../../../client/src/index.ts'

/** `invalid`: it was not sent, or refused; `expired`: the server does not have the job any more. */
export type RowStatus = 'completed' | 'failed' | 'invalid' | 'expired'

export interface Row {
  /** The number of the line, from 1. */
  readonly line: number
  readonly custom_id?: string
  /** Null where no job was made. */
  readonly job_id: string | null
  readonly status: RowStatus
  readonly result: { readonly response_content: unknown } | null
  readonly error: JobError | null
}

interface About {
  readonly number: number
  readonly customId: string | undefined
}

export function endedRow(about: About, { job_id, status, result, error }: EndedJob): Row {
  return { ...named(about), job_id, status, result, error }
}

export function invalidRow(about: About, message: string): Row {
  return {
    ...named(about),
    job_id: null,
    status: 'invalid',
    result: null,
    error: { code: 'invalid', message },
  }
}

export function expiredRow(about: About, job_id: string, message: string): Row {
  return { ...named(about), job_id, status: 'expired', result: null, error: { code: 'expired', message } }
}

function named({ number, customId }: About): { readonly line: number; readonly custom_id?: string } {
  return { line: number, ...(customId !== undefined && { custom_id: customId }) }
}
