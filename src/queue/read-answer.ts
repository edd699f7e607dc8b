/** Reads models' answers and callers' schemas. Large ones would block the event loop, so the CPU pool reads them. */

import { checkSteps, FIRST_CHECK_STEPS } from 'parley-json-schema'
import type { CpuPool, CpuUser } from '../cpu-pool/cpu-pool.ts'
import { type Answer, answerOf, judgeAnswer } from '../job/answer.ts'
import type { ClaimedJob } from '../job/job.ts'
import { type SchemaFacts, schemaFacts } from '../job/read-schemas.ts'
import { TEXT_JSON } from '../job/response-format.ts'
import type { StopSignal } from '../job/stop.ts'

/** A schema with more characters than this is read on a thread. So is an answer that has more together with its format. */
const LARGE_TEXT = 64 * 1024

export interface AnswerReaderOptions {
  readonly pool: Pick<CpuPool, 'run'>
  /** How deep arrays and objects may be nested in a JSON answer. */
  readonly maxDepth: number
  readonly weightOf: (tier: string) => number
}

const NO_FACTS: SchemaFacts = { strict: false, isObject: false }

type JobToRead = Pick<ClaimedJob, 'account' | 'tier' | 'responseFormatJson'>

export class AnswerReader {
  readonly #options: AnswerReaderOptions

  constructor(options: AnswerReaderOptions) {
    this.#options = options
  }

  /** Checks the answer against the format of the job. Resolves to null if the signal stopped the job first. */
  read(job: JobToRead, text: string, signal: StopSignal): Answer | Promise<Answer | null> {
    const { responseFormatJson: formatJson } = job
    if (text.length + formatJson.length > LARGE_TEXT) return this.#readOnThread(job, text, signal)
    // Without a format, any text is a valid answer.
    if (formatJson === TEXT_JSON) return { ok: true, contentJson: JSON.stringify(text) }
    const { maxDepth } = this.#options
    const verdict = judgeAnswer(text, formatJson, { maxDepth, steps: FIRST_CHECK_STEPS })
    // Few checks take this many steps. The thread starts the check again, with the full number of steps.
    return verdict.kind === 'not checked' ? this.#readOnThread(job, text, signal) : answerOf(text, verdict)
  }

  /** If the signal stopped the job first, this reports that the schema is not strict, because no model will be called. */
  schemaFacts(job: JobToRead, schemaJson: string, signal: StopSignal): SchemaFacts | Promise<SchemaFacts> {
    if (schemaJson.length <= LARGE_TEXT) return schemaFacts(schemaJson)
    return this.#options.pool
      .run('read schema', { schemaJson }, this.#userOf(job), signal)
      .then((facts) => facts ?? NO_FACTS)
  }

  async #readOnThread(job: JobToRead, text: string, signal: StopSignal): Promise<Answer | null> {
    const { pool, maxDepth } = this.#options
    const limits = { maxDepth, steps: checkSteps(text.length) }
    const task = { text, formatJson: job.responseFormatJson, limits }
    const judged = await pool.run('judge answer', task, this.#userOf(job), signal)
    if (judged === null) return null
    const answer = answerOf(text, judged.verdict)
    return answer.ok || judged.textJson === null ? answer : { ...answer, raw: { json: judged.textJson } }
  }

  #userOf({ account, tier }: JobToRead): CpuUser {
    return { account, weight: this.#options.weightOf(tier) }
  }
}
