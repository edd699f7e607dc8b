/** What the lines of a batch and of its results look like: this folder does not know, an API does. */
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
  /** Whether it goes to the error file. */
  readonly failed: boolean
  readonly json: string
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
  /** Absent if its model has no price. */
  readonly cost?: number
}

export interface LineFormat {
  read(bytes: Uint8Array, endpoint: string): WantedLine | WrongLine
  /** Of a job that has ended. */
  resultOf(batch: StoredBatch, customId: string, job: EndedJob, request: JobRequest): Promise<LineResult>
  /** Of a line without an answer. @param id of its job, or made of the batch and the line */
  unfinished(customId: string, id: string, problem: Problem): string
  /** Of a line that may not run. */
  refused(customId: string, id: string, error: AdmissionError): string
  /** Why a line may not run, as a problem of the line. */
  problemOf(error: AdmissionError): WrongLine
  /** The event that reports how a batch ended. */
  eventTo(url: string, status: BatchStatus): Callback
}
