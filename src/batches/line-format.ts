/** The format of the lines of a batch and of its results. An API implements it; this folder does not know it. */
import type { CreateElement } from '../job/create-body.ts'
import type { Callback } from '../job/job.ts'
import type { AdmissionError } from '../queue/job-creator.ts'
import type { BatchStatus, JobRequest, StoredBatch } from '../store/batch-store.ts'
import type { EndedJob } from '../store/store.ts'
import type { Problem } from './progress.ts'

export interface WantedLine {
  readonly customId: string
  readonly element: CreateElement
}

export interface WrongLine extends Problem {
  readonly param: string | null
}

export interface LineResult {
  /** Whether the line goes to the error file. */
  readonly failed: boolean
  readonly json: string
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
  /** Absent if the model has no price. */
  readonly cost?: number
}

export interface LineFormat {
  read(bytes: Uint8Array, endpoint: string): WantedLine | WrongLine
  /** The result of a job that has finished. */
  resultOf(batch: StoredBatch, customId: string, job: EndedJob, request: JobRequest): Promise<LineResult>
  /**
   * The result line for a request without an answer.
   * @param id the ID of its job, or one made of the batch and the line
   */
  unfinished(customId: string, id: string, problem: Problem): string
  /** The result line for a request that cannot run. */
  refused(customId: string, id: string, error: AdmissionError): string
  /** The problem of a line that cannot run. */
  problemOf(error: AdmissionError): WrongLine
  /** The event that reports how a batch ended. */
  eventTo(url: string, status: BatchStatus): Callback
}
