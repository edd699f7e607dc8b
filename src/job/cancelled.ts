/** The error of a cancelled job, which records who cancelled it. */
import type { JobError } from './job.ts'

export type CancelledBy = 'caller' | 'operator'

const MESSAGES: Readonly<Record<CancelledBy, string>> = {
  caller: 'The caller cancelled the job.',
  operator: 'An operator of the service cancelled the job.',
}

/** The error as it is stored and sent. */
export function cancelledErrorJson(by: CancelledBy): string {
  const error: JobError = { code: 'cancelled', message: MESSAGES[by], cancelled_by: by }
  return JSON.stringify(error)
}

/** Whether this is the error of a cancelled job, of any version. */
export function isCancelledError(errorJson: string | null): boolean {
  return errorJson?.startsWith('{"code":"cancelled"') === true
}
