/** Validates jobs with the server's own rules and the limits of the caller's tier before anything is sent. */
import { Check, Errors } from 'typebox/schema'
import type { Me } from '../../../client/src/index.ts'
import { validationError } from '../../http/validation-errors.ts'
import { problemWith, tokensAtMost } from '../../job/create-body.ts'
import { type BatchElement, batchElement } from '../../job/request.ts'
import { readSchema } from '../../json-schema/read-schema.ts'
import { checkCallbackHeaders } from '../../net/callback-headers.ts'
import { countTokens } from '../../tokens/count-tokens.ts'
import { countConversation } from '../../tokens/token-counter.ts'

/** The brackets of the JSON array around the job. */
const BRACKETS = 2

export class JobCheck {
  readonly #me: Me

  constructor(me: Me) {
    this.#me = me
  }

  /** Returns the field and the rule that it violates; null if the server will accept the job. */
  async problemOf(job: unknown): Promise<string | null> {
    if (!Check(batchElement, job)) return shapeProblem(job)
    return ruleProblem(job) ?? (await this.#limitProblem(job))
  }

  async #limitProblem(job: BatchElement): Promise<string | null> {
    const { tier, models, limits } = this.#me
    if (!models.includes(job.model)) {
      return `model: tier ${tier} cannot use ${job.model}; it can use ${models.join(', ')}`
    }
    const bytes = Buffer.byteLength(JSON.stringify(job)) + BRACKETS
    if (bytes > limits.batch_body_bytes) {
      return `is ${bytes} bytes long; the server accepts at most ${limits.batch_body_bytes}`
    }
    const most = limits.max_input_tokens
    const bound = tokensAtMost(job.messages)
    if (bound <= most) return null
    const messagesJson = JSON.stringify(job.messages)
    const conversation = { messagesJson, messages: job.messages.length, tokensAtMost: bound }
    const count = await countConversation(conversation, most, (jsonTexts, enough) =>
      countTokens({ jsonTexts, enough }),
    )
    if (count === null || count.tokens <= most) return null
    const has = count.certainty === 'exact' ? `${count.tokens}` : `${count.certainty} ${count.tokens}`
    return `messages: have ${has} tokens; tier ${tier} allows at most ${most}`
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

/** The checks that need no server. Only the server knows which networks and ports it allows. */
function callbackProblem({ callback_url, callback_headers }: NonNullable<BatchElement['callback']>) {
  const url = URL.canParse(callback_url) ? new URL(callback_url) : null
  if (!/^https?:$/.test(url?.protocol ?? '')) {
    return 'callback.callback_url: must be an http or https URL'
  }
  const wrong = checkCallbackHeaders(callback_headers ?? {})
  return wrong && `callback.callback_headers[${JSON.stringify(wrong.header)}]: ${wrong.rule}`
}

/** Translates an error of this validator to the server's, whose validator reports the same errors in another form. */
function shapeProblem(job: unknown): string {
  const [, errors] = Errors(batchElement, job)
  const first = errors.find(({ keyword }) => keyword !== 'boolean')
  if (!first) return 'is not valid'
  const { keyword, instancePath, schemaPath, message } = first
  const params = first.params as Readonly<Record<string, unknown>>
  const [missingProperty] = (params.requiredProperties as string[] | undefined) ?? []
  const [additionalProperty] = (params.additionalProperties as string[] | undefined) ?? []
  const serverParams: Record<string, unknown> = { ...params, missingProperty, additionalProperty }
  return validationError({
    keyword,
    instancePath,
    schemaPath,
    message,
    params: serverParams as Record<string, string>,
  })
}
