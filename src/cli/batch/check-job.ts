/** Holds jobs against the server's rules before anything is sent: the same ones, with the limits of the caller's tier. */
import { Check, Errors } from 'typebox/value'
import type { Me } from '../../../client/src/index.ts'
import { validationError } from '../../http/validation-errors.ts'
import { tokensAtMost } from '../../job/input-size.ts'
import { type BatchElement, batchElement, problemWith } from '../../job/request.ts'
import { readSchema } from '../../json-schema/read-schema.ts'
import { checkCallbackHeaders } from '../../net/callback-headers.ts'
import { TokenCounter } from '../../tokens/token-counter.ts'

/** The brackets of the array around it. */
const BRACKETS = 2

export class JobCheck {
  readonly #me: Me
  readonly #tokens = new TokenCounter()

  constructor(me: Me) {
    this.#me = me
  }

  /** The field and the rule that it breaks; null for a job that the server will take. */
  async problemOf(job: unknown): Promise<string | null> {
    if (!Check(batchElement, job)) return shapeProblem(job)
    return ruleProblem(job) ?? (await this.#limitProblem(job))
  }

  async close(): Promise<void> {
    await this.#tokens.close()
  }

  async #limitProblem(job: BatchElement): Promise<string | null> {
    const { tier, models, limits } = this.#me
    if (!models.includes(job.model)) {
      return `model: ${job.model} is none that tier ${tier} may use: ${models.join(', ')}`
    }
    const bytes = Buffer.byteLength(JSON.stringify(job)) + BRACKETS
    if (bytes > limits.batch_body_bytes) {
      return `is ${bytes} bytes long, and the server takes ${limits.batch_body_bytes} at most`
    }
    const most = limits.max_input_tokens
    if (tokensAtMost(job.messages) <= most) return null
    const tokens = await this.#tokens.count(job.messages, most * 2)
    return tokens <= most ? null : `messages: ${tokens} tokens, and tier ${tier} allows ${most}`
  }
}

function ruleProblem(job: BatchElement): string | null {
  const problem = problemWith(job)
  if (problem) return `${problem.field}: ${problem.rule}`
  const { schema } = job.response_format
  const read = schema === undefined ? null : readSchema(schema)
  if (read?.ok === false) return `response_format.${read.path}: ${read.rule}`
  return job.callback ? callbackProblem(job.callback) : null
}

/** What the server allows beyond that only it can say. */
function callbackProblem({ callback_url, callback_headers }: NonNullable<BatchElement['callback']>) {
  const url = URL.canParse(callback_url) ? new URL(callback_url) : null
  if (!/^https?:$/.test(url?.protocol ?? '')) {
    return 'callback.callback_url: must be an http or https address'
  }
  const wrong = checkCallbackHeaders(callback_headers ?? {})
  return wrong && `callback.callback_headers[${JSON.stringify(wrong.header)}]: ${wrong.rule}`
}

/** In the words of the server, whose checker says the same in other terms. */
function shapeProblem(job: unknown): string {
  const [first] = Errors(batchElement, job).filter(({ keyword }) => keyword !== 'boolean')
  if (!first) return 'is not valid'
  const { keyword, instancePath, schemaPath, message } = first
  const params = first.params as Readonly<Record<string, unknown>>
  const [missingProperty] = (params.requiredProperties as string[] | undefined) ?? []
  const [additionalProperty] = (params.additionalProperties as string[] | undefined) ?? []
  const said: Record<string, unknown> = { ...params, missingProperty, additionalProperty }
  return validationError({
    keyword,
    instancePath,
    schemaPath,
    message,
    params: said as Record<string, string>,
  })
}
