/** Gathers the lines and results of one step of a batch until they are stored together. */
import { sumOfCosts } from '../job/amount.ts'
import type { BatchEnd, BatchLine, BatchStatus, BatchStep, StoredBatch } from '../store/batch-store.ts'
import type { LineResult } from './line-format.ts'
import { keyOfLine } from './line-starts.ts'
import type { Problem, Progress } from './progress.ts'

export const EXPIRED: Problem = {
  code: 'batch_expired',
  message: 'This request could not be executed before the completion window expired.',
}

export interface StoredAs {
  readonly node: string
  readonly status: BatchStatus
  readonly nowMs: number
  /** The step calls this when a result file gets its first content. */
  readonly makeId: () => string
  readonly end: BatchEnd | null
}

export class Step {
  progress: Progress
  /** How many lines have started, plus how many have results. */
  size = 0
  characters = 0
  /** A line that started and ended in this step is not listed here. */
  readonly #started = new Map<string, BatchLine>()
  readonly #ended: BatchLine[] = []
  readonly #output: string[] = []
  readonly #errors: string[] = []

  constructor(progress: Progress) {
    this.progress = progress
  }

  begin(line: BatchLine): void {
    this.#started.set(line.jobId, line)
    this.size += 1
  }

  /** The result of the line follows with `addResult` or `addProblem`. */
  end(line: BatchLine): void {
    this.#started.delete(line.jobId)
    this.#ended.push(line)
  }

  /** @param fate why the job was cancelled or expired; null for other jobs */
  addResult(result: LineResult, fate: Problem | null = null): void {
    const { progress } = this
    ;(result.failed ? this.#errors : this.#output).push(result.json)
    this.size += 1
    this.characters += result.json.length
    this.progress = {
      ...progress,
      completed: progress.completed + (result.failed ? 0 : 1),
      failed: progress.failed + (result.failed ? 1 : 0),
      inputTokens: progress.inputTokens + result.inputTokens,
      cachedTokens: progress.cachedTokens + result.cachedTokens,
      outputTokens: progress.outputTokens + result.outputTokens,
      ...(result.cost !== undefined && { cost: sumOfCosts(progress.cost ?? 0, result.cost) }),
      expired: progress.expired || fate === EXPIRED,
    }
  }

  /** @param json the result of a line without an answer */
  addProblem(json: string, problem: Problem): void {
    const { progress } = this
    this.#errors.push(json)
    this.size += 1
    const expired = progress.expired || problem === EXPIRED
    this.progress = { ...progress, failed: progress.failed + 1, expired }
  }

  toStore(batch: StoredBatch, { node, status, nowMs, makeId, end }: StoredAs): BatchStep {
    return {
      batchId: batch.id,
      node,
      version: batch.version,
      status,
      progressJson: JSON.stringify(this.progress),
      started: [...this.#started.values()],
      endedJobIds: this.#ended.map(({ jobId }) => jobId),
      forgottenKeys: this.#ended.map(({ line }) => keyOfLine(batch.id, line)),
      output: extensionOf(batch.outputFileId, makeId, this.#output),
      errors: extensionOf(batch.errorFileId, makeId, this.#errors),
      nowMs,
      end,
    }
  }
}

function extensionOf(fileId: string | null, makeId: () => string, lines: readonly string[]) {
  if (lines.length === 0) return null
  return { fileId: fileId ?? makeId(), content: Buffer.from(`${lines.join('\n')}\n`) }
}
