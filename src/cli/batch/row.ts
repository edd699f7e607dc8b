/** Defines the lines of results that `parley batch` writes, one for each input line. */
import type { EndedJob, JobError } from '../../../client/src/index.ts'

/** `invalid`: the line was not sent, or the server rejected it. `expired`: the server has deleted the job. */
export type RowStatus = 'completed' | 'failed' | 'invalid' | 'expired'

export interface Row {
  /** Lines count from 1. */
  readonly line: number
  readonly custom_id?: string
  /** `job_id` is null if no job was created. */
  readonly job_id: string | null
  readonly status: RowStatus
  readonly result: { readonly response_content: unknown } | null
  readonly error: JobError | null
}

interface InputLine {
  readonly number: number
  readonly customId: string | undefined
}

export function endedRow(line: InputLine, { job_id, status, result, error }: EndedJob): Row {
  return { ...identify(line), job_id, status, result, error }
}

export function invalidRow(line: InputLine, message: string): Row {
  return {
    ...identify(line),
    job_id: null,
    status: 'invalid',
    result: null,
    error: { code: 'invalid', message },
  }
}

export function expiredRow(line: InputLine, job_id: string): Row {
  const message = 'The job does not exist or has expired.'
  return { ...identify(line), job_id, status: 'expired', result: null, error: { code: 'expired', message } }
}

function identify({ number, customId }: InputLine): { readonly line: number; readonly custom_id?: string } {
  return { line: number, ...(customId !== undefined && { custom_id: customId }) }
}

export const FORMATS = ['parley', 'openai'] as const
export type Format = (typeof FORMATS)[number]
