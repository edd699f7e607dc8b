/** Defines the format of a batch's lines and results. `v1/` implements it, because this folder knows no API. */
import type { Callback } from '../job/job.ts'
import type { AdmissionError } from '../queue/job-creator.ts'
import type { BatchStatus, JobRequest, StoredBatch } from '../store/batch-store.ts'
import type { EndedJob } from '../store/store.ts'
import type { Problem, WrongLine } from './progress.ts'
import type { WantedLine } from './wanted-line.ts'

export interface LineResult {
  /** Whether the result belongs in the error file. */
  readonly failed: boolean
  readonly json: string
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
  /** The cost is in millionths of the currency. It is absent if the model has no price. */
  readonly cost?: number
}

export interface LineFormat {
  /** Returns what a line asks for. `bytes` may be empty afterwards, because a thread may have taken them. */
  read(bytes: Uint8Array, batch: StoredBatch): Promise<WantedLine | WrongLine>
  resultOf(batch: StoredBatch, customId: string, job: EndedJob, request: JobRequest): Promise<LineResult>
  /**
   * Returns the result of a line that ended without an answer.
   * @param id the ID of the line's job; without a job, the ID of the batch followed by the number of the line
   */
  unfinished(customId: string, id: string, problem: Problem): string
  /** Returns the result of a line that is not allowed to run. */
  refused(endpoint: string, customId: string, id: string, error: AdmissionError): string
  /** Returns why a line is not allowed to run, in the form in which the batch lists wrong lines. */
  problemOf(endpoint: string, error: AdmissionError): WrongLine
  eventTo(url: string, status: BatchStatus): Callback
}
