/** The format of a batch's lines and results, which an API implements: this folder knows no API. */
import type { Callback } from '../job/job.ts'
import type { AdmissionError } from '../queue/job-creator.ts'
import type { BatchStatus, JobRequest, StoredBatch } from '../store/batch-store.ts'
import type { EndedJob } from '../store/store.ts'
import type { Problem } from './progress.ts'
import type { WantedLine, WrongLine } from './wanted-line.ts'

export interface LineResult {
  /** Whether the result belongs into the error file. */
  readonly failed: boolean
  readonly json: string
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
  /** Absent if the model has no price. */
  readonly cost?: number
}

export interface LineFormat {
  /** Returns what a line asks for. The bytes may be empty afterwards. */
  read(bytes: Uint8Array, batch: StoredBatch): Promise<WantedLine | WrongLine>
  /** Returns the result of a job that has ended. */
  resultOf(batch: StoredBatch, customId: string, job: EndedJob, request: JobRequest): Promise<LineResult>
  /** Returns the result of a line without an answer. @param id of its job, or made of the batch and the line */
  unfinished(customId: string, id: string, problem: Problem): string
  /** Returns the result of a line that may not run. */
  refused(endpoint: string, customId: string, id: string, error: AdmissionError): string
  /** Returns why a line may not run, as a problem of the line. */
  problemOf(endpoint: string, error: AdmissionError): WrongLine
  /** Returns the event that reports how a batch ended. */
  eventTo(url: string, status: BatchStatus): Callback
}
