/**
 * Reads the input file of `parley batch`. All lines are validated before the first is sent, with the server's rules and the
 * limits of the caller's tier.
 */

import { createHash } from 'node:crypto'
import { Ajv, type ValidateFunction } from 'ajv'
import { readSchema } from 'parley-json-schema'
import type { BatchJob, Me } from '../../../client/src/index.ts'
import { validationError } from '../../http/validation-errors.ts'
import { problemWith, tokensAtMost } from '../../job/create-body.ts'
import { type BatchElement, batchElement } from '../../job/request.ts'
import { parseExactly } from '../../json-text/read-json.ts'
import { checkCallbackHeaders } from '../../net/callback-headers.ts'
import { countTokens } from '../../tokens/count-tokens.ts'
import { countConversation } from '../../tokens/token-counter.ts'
import { isOpenAiLine, openAiJob, openAiProblem } from './openai.ts'
import type { InputJob } from './run.ts'

interface InvalidLine {
  readonly index: number
  readonly number: number
  readonly customId: string | undefined
  readonly problem: string
}

export interface Input {
  readonly lines: readonly Line[]
  readonly jobs: readonly InputJob[]
  readonly invalid: readonly InvalidLine[]
}

interface InputRules extends Reading {
  readonly me: Me
  /** In OpenAI's output format, only the custom_id identifies a line. */
  readonly needsCustomId: boolean
  /** Lines that an earlier process sent were valid then. They are not validated again, because the tier may have changed. */
  readonly wasSent: (index: number) => boolean
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

export async function readJobs(bytes: Buffer, rules: InputRules): Promise<Input> {
  const lines = splitLines(bytes)
  const check = new JobCheck(rules.me)
  const jobs: InputJob[] = []
  const invalid: InvalidLine[] = []
  const customIds = new Map<string, number>()
  for (const line of lines) {
    const { index, number } = line
    const read = readLine(line, rules)
    const { customId } = read
    const problem = rules.wasSent(index)
      ? null
      : ((read.ok ? customIdProblem(read, rules, customIds) : read.problem) ??
        (read.ok ? await check.problemOf(read.job) : null))
    if (problem === null) jobs.push({ index, number, customId, job: () => readExactly(line, rules) })
    else invalid.push({ index, number, customId, problem })
    if (customId !== undefined) customIds.set(customId, number)
  }
  return { lines, jobs, invalid }
}

/** As in OpenAI's batch files, custom_ids must be unique. */
function customIdProblem(
  { customId, openAi }: { readonly customId: string | undefined; readonly openAi: boolean },
  { needsCustomId }: InputRules,
  before: ReadonlyMap<string, number>,
): string | null {
  if (customId === undefined) {
    return needsCustomId ? 'custom_id: is required with --format openai' : null
  }
  const other = before.get(customId)
  if (other === undefined || !(openAi || needsCustomId)) return null
  return `custom_id: line ${other} has the same custom_id`
}

type Fields = Readonly<Record<string, unknown>>

interface Reading {
  /** Maps model names in the input to the names to send. `*` maps all other names. */
  readonly models: ReadonlyMap<string, string>
  /** These fields of OpenAI's request bodies are ignored. */
  readonly drop: readonly string[]
}

type ReadLine =
  | {
      readonly ok: true
      readonly customId: string | undefined
      readonly openAi: boolean
      readonly job: unknown
    }
  | { readonly ok: false; readonly customId: string | undefined; readonly problem: string }

function readLine({ bytes }: Line, reading: Reading): ReadLine {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    return { ok: false, customId: undefined, problem: `is not JSON: ${(error as Error).message}` }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { ok: false, customId: undefined, problem: 'must be an object' }
  }
  const fields = value as Fields
  const customId = typeof fields.custom_id === 'string' ? fields.custom_id : undefined
  if (fields.custom_id !== undefined && customId === undefined) {
    return { ok: false, customId, problem: 'custom_id: must be a string' }
  }
  const openAi = isOpenAiLine(fields)
  const problem = openAi ? openAiProblem(fields, reading.drop) : null
  if (problem !== null) return { ok: false, customId, problem }
  return { ok: true, customId, openAi, job: jobOf(fields, reading) }
}

/** Parses a valid line again before it is sent, because `JSON.parse` loses digits of large numbers. */
function readExactly({ bytes }: Line, reading: Reading): BatchJob {
  return jobOf(parseExactly(bytes.toString('utf8')) as Fields, reading) as BatchJob
}

function jobOf(fields: Fields, { models, drop }: Reading): unknown {
  const { custom_id, ...own } = fields
  const job: Fields = isOpenAiLine(fields) ? { ...openAiJob(fields, drop) } : own
  const model = models.get(String(job.model)) ?? models.get('*')
  return model === undefined ? job : { ...job, model }
}

const LINE_END = 0x0a

interface Line {
  /** Counts from 0 and skips empty lines. */
  readonly index: number
  /** Counts all lines of the file, from 1. */
  readonly number: number
  readonly bytes: Buffer
}

/** The lines are views of the input's bytes, so a large input is not copied. */
function splitLines(input: Buffer): readonly Line[] {
  const lines: Line[] = []
  for (let start = 0, number = 1; start < input.length; number++) {
    const found = input.indexOf(LINE_END, start)
    const end = found === -1 ? input.length : found
    const bytes = input.subarray(start, end)
    if (!isBlank(bytes)) lines.push({ index: lines.length, number, bytes })
    start = end + 1
  }
  return lines
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)
}

/** A request wraps the job in `[` and `]`. */
const BRACKETS = 2

/** Ajv has the same options as in the HTTP server, so both accept the same jobs. */
const hasShape = new Ajv().compile<BatchElement>(batchElement)

class JobCheck {
  readonly #me: Me

  constructor(me: Me) {
    this.#me = me
  }

  /** Returns a problem in the form `field: rule`, or null. Only the server can check the callback's address. */
  async problemOf(job: unknown): Promise<string | null> {
    if (!hasShape(job)) return shapeProblem(hasShape)
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

/** Only the server knows which networks and ports it allows, so those are not checked here. */
function callbackProblem({ callback_url, callback_headers }: NonNullable<BatchElement['callback']>) {
  const url = URL.canParse(callback_url) ? new URL(callback_url) : null
  if (!/^https?:$/.test(url?.protocol ?? '')) {
    return 'callback.callback_url: must be an http or https URL'
  }
  const wrong = checkCallbackHeaders(callback_headers ?? {})
  return wrong && `callback.callback_headers[${JSON.stringify(wrong.header)}]: ${wrong.rule}`
}

function shapeProblem({ errors }: ValidateFunction): string {
  const [first] = errors ?? []
  return first ? validationError(first) : 'is not valid'
}
