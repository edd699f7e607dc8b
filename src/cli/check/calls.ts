/**
 * Makes the paid calls of `parley check --calls`. They use the same client as jobs, so the model server gets the same requests.
 */

import { CHECK_STEPS } from 'parley-json-schema'
import type { Clock } from '../../clock.ts'
import type { UpstreamSettings } from '../../config/settings.ts'
import type { UpstreamAccess } from '../../config/upstream-access.ts'
import { judgeAnswer } from '../../job/answer.ts'
import { schemaFacts } from '../../job/read-schemas.ts'
import { Stop } from '../../job/stop.ts'
import type {
  AnswerForm,
  ModelServer,
  Reply,
  RequestFormat,
  UpstreamError,
} from '../../upstreams/model-server.ts'
import { OpenAiClient } from '../../upstreams/openai-client.ts'
import { readLargeCompletion } from '../../upstreams/read-completion.ts'
import type { Finding } from './finding.ts'
import type { SettingNames } from './unreachable.ts'

/** The calls are a short answer, a developer message, a JSON answer, and two concurrent calls. */
export const CALLS_PER_TARGET = 5
/** A call may take this long, because a server may load the model when it gets the first call. */
const MAX_CALL_SECONDS = 120

export interface CalledTarget {
  readonly upstream: string
  readonly model: string
  readonly settings: UpstreamSettings
  readonly access: UpstreamAccess
  /** `modelSetting` names the setting that contains the model's name. */
  readonly modelSetting: string
  readonly names: SettingNames
}

interface Message {
  readonly role: 'developer' | 'user'
  readonly content: string
}

const QUESTION: Message = { role: 'user', content: 'Answer with the word OK and nothing else.' }
/**
 * The instructions are long, so the number of prompt tokens shows whether they reached the model. This works even if they
 * replace a default system message of the chat template.
 */
const INSTRUCTIONS: Message = {
  role: 'developer',
  content:
    'This is a check of the connection between a job server and a model server. It finds out whether instructions of ' +
    'developers reach the model, by the number of tokens in the prompt that the model server reports. Please be brief. ' +
    'Use no more words than the user asks for. Do not explain anything, do not greet anybody, do not ask questions, and do ' +
    'not repeat these instructions. The answer is read by a program, which looks only at whether there is one.',
}
/** With fewer additional prompt tokens, the instructions did not reach the model. Known tokenizers count at least 100. */
const MIN_INSTRUCTION_TOKENS = 25

const SCHEMA = JSON.stringify({
  type: 'object',
  properties: { river: { type: 'string' } },
  required: ['river'],
  additionalProperties: false,
})
const RESPONSE_FORMAT = `{"format":"json","schema":${SCHEMA}}`
const JSON_QUESTION: Message = { role: 'user', content: 'Name a river, as {"river": "…"}.' }
const MAX_DEPTH = 64

/** Two concurrent calls that take longer than one by this factor, and by NOISE_MS, were not processed together. */
const SERIAL_FACTOR = 1.6
const NOISE_MS = 100

interface Called {
  readonly reply: Reply
  /** `first` is the format of the first request, and `format` that of the last. They differ if the server rejected a format. */
  readonly first: RequestFormat
  readonly format: RequestFormat
  readonly ms: number
}

export async function* callTarget(target: CalledTarget, clock: Clock): AsyncGenerator<Finding> {
  const { upstream: name, access } = target
  const call_timeout_seconds = Math.min(target.settings.call_timeout_seconds, MAX_CALL_SECONDS)
  const client = new OpenAiClient({
    name,
    settings: { ...target.settings, call_timeout_seconds },
    ...access,
    clock,
    readLarge: (completion) => Promise.resolve(readLargeCompletion(completion)),
  })
  try {
    yield* new TargetCheck(target, client, clock).findings()
  } finally {
    await client.close()
  }
}

class TargetCheck {
  readonly #target: CalledTarget
  readonly #server: ModelServer
  readonly #clock: Clock

  constructor(target: CalledTarget, server: ModelServer, clock: Clock) {
    this.#target = target
    this.#server = server
    this.#clock = clock
  }

  async *findings(): AsyncGenerator<Finding> {
    const answered = await this.#call([QUESTION], { kind: 'text' })
    if (answered.reply.kind === 'error') {
      yield this.#failed('answer', 'does not answer', answered.reply)
      return
    }
    yield this.#answer(answered)
    const instructed = await this.#call([INSTRUCTIONS, QUESTION], { kind: 'text' })
    yield this.#roles(answered, instructed)
    // The following calls would time out as well.
    if (timedOut(instructed)) return
    const form = { kind: 'schema', schemaJson: SCHEMA, ...schemaFacts(SCHEMA) } as const
    const asJson = await this.#call([JSON_QUESTION], form)
    yield this.#json(asJson)
    if (!timedOut(asJson)) yield await this.#twoAtOnce(answered)
  }

  /** Like a job, tries the next format if the server rejects one. */
  async #call(messages: readonly Message[], form: AnswerForm): Promise<Called> {
    const prompt = { messagesJson: JSON.stringify(messages), account: 'parley check', form }
    const { model } = this.#target
    const signal = new Stop()
    const startedAtMs = this.#clock.steadyMs()
    const first = this.#server.requestFormat(model, prompt)
    for (let format = first; ; ) {
      const reply = await this.#server.ask(model, prompt, format, signal)
      const ms = this.#clock.steadyMs() - startedAtMs
      const other = reply.kind === 'error' ? this.#server.otherFormat(model, prompt, format, reply) : null
      if (other === null) return { reply, first, format, ms }
      format = other
    }
  }

  #answer({ reply, ms }: Called): Finding {
    const { input, output } = tokensOf(reply)
    const usage =
      input === 0
        ? 'the server reports no usage, so tokens cannot be counted and caps on tokens do not work'
        : `${input} input and ${output} output tokens`
    const finding = this.#found('answer', `answers in ${Math.round(ms)} ms (${usage})`)
    return input === 0 ? { ...finding, warns: true } : finding
  }

  #roles(without: Called, { reply, format }: Called): Finding {
    if (reply.kind === 'error') {
      const fix = this.#otherRoles('no_system')
      if (isRejected(reply)) return this.#failed('roles', 'rejects a developer message', reply, fix)
      return this.#failed('roles', 'does not answer a developer message', reply)
    }
    const [before, after] = [tokensOf(without.reply).input, tokensOf(reply).input]
    const sent = `sent as ${format.roles}`
    if (before === 0 || after === 0) {
      const says = `cannot verify whether developer messages reach the model (${sent}): the server reports no usage`
      return { ...this.#found('roles', says), warns: true }
    }
    if (after - before < MIN_INSTRUCTION_TOKENS) {
      const fix = this.#otherRoles(format.roles === 'merged_system' ? 'no_system' : 'merged_system')
      const says = `a developer message (${sent}) does not reach the model: ${after} prompt tokens with it, ${before} without`
      return { ...this.#found('roles', says), ok: false, fix }
    }
    const says = `a developer message reaches the model (${sent}; ${after} prompt tokens with it, ${before} without)`
    return this.#found('roles', says)
  }

  #otherRoles(roles: string): string {
    const { upstream, settings } = this.#target
    const setting = `upstreams.${upstream}.roles`
    const isSet = settings.roles !== null && settings.roles !== 'auto'
    return isSet ? `leave out ${setting}, or set it to "${roles}"` : `set ${setting} to "${roles}"`
  }

  #json({ reply, first, format }: Called): Finding {
    const { upstream, settings } = this.#target
    const mode = format.json_mode ?? 'instruction'
    if (reply.kind === 'error') {
      const others = (['json_schema', 'json_object', 'none'] as const).filter(
        (one) => one !== settings.structured_output,
      )
      const fix = `set upstreams.${upstream}.structured_output to "${others.join('" or "')}"`
      if (isRejected(reply)) return this.#failed('json', `rejects a request for JSON (${mode})`, reply, fix)
      return this.#failed('json', `does not answer a request for JSON (${mode})`, reply)
    }
    const text = reply.kind === 'answer' ? reply.text : ''
    const verdict = judgeAnswer(text, RESPONSE_FORMAT, { maxDepth: MAX_DEPTH, steps: CHECK_STEPS })
    if (verdict.kind === 'wrong' && reply.kind === 'answer' && reply.truncated) {
      const says = `the JSON answer was cut off at a length limit (${tokensOf(reply).output} output tokens)`
      const fix = `raise the limit, which may be max_tokens in upstreams.${upstream}.body, or that of the server`
      return { ...this.#found('json', says), ok: false, fix }
    }
    if (verdict.kind === 'wrong') {
      const says = `the answer is not the requested JSON (${mode}): ${verdict.errors.join('; ')}`
      const weaker = settings.structured_output === 'json_schema' ? 'json_object' : 'none'
      const fix =
        mode === 'instruction'
          ? `use a model that follows instructions in ${this.#target.modelSetting}`
          : `the server ignores the format: set upstreams.${upstream}.structured_output to "${weaker}"`
      return { ...this.#found('json', says), ok: false, fix }
    }
    const finding = this.#found('json', `answers with JSON that satisfies a schema (${mode})`)
    if (format.json_mode === first.json_mode) return finding
    const rest = first.json_mode === 'json_object' ? '"json_schema" or "none"' : '"none"'
    const better = mode === 'json_object' ? '"json_object"' : rest
    const fix = `set upstreams.${upstream}.structured_output to ${better}, to avoid a rejected call for each job`
    return { ...finding, warns: true, fix }
  }

  async #twoAtOnce(one: Called): Promise<Finding> {
    const both = await Promise.all([1, 2].map(() => this.#call([QUESTION], { kind: 'text' })))
    const failed = both.map(({ reply }) => reply).find((reply) => reply.kind === 'error')
    const { concurrency } = this.#target.names
    if (failed !== undefined) {
      const fix = `set ${concurrency} to 1, or give the server more slots`
      return this.#failed('concurrency', 'fails when it receives two concurrent calls', failed, fix)
    }
    const ms = Math.max(...both.map((call) => call.ms))
    const times = `two concurrent calls take ${Math.round(ms)} ms, one takes ${Math.round(one.ms)} ms`
    const fastest = Math.min(one.ms, ...both.map((call) => call.ms))
    if (ms < Math.max(fastest * SERIAL_FACTOR, fastest + NOISE_MS)) {
      return this.#found('concurrency', `answers two concurrent calls (${times})`)
    }
    const says = `does not process calls concurrently: ${times}`
    const fix = `set ${concurrency} to the number of slots of the server, or give the server more slots`
    return { ...this.#found('concurrency', says), warns: true, fix }
  }

  #found(check: Finding['check'] & string, says: string): Finding {
    return { ok: true, about: `target ${this.#target.upstream}/${this.#target.model}`, check, says }
  }

  #failed(check: Finding['check'] & string, what: string, error: UpstreamError, fix?: string): Finding {
    const status = error.status === null ? '' : ` (HTTP ${error.status})`
    return {
      ...this.#found(check, `${what}${status}: ${error.message}`),
      ok: false,
      fix: fix ?? this.#fixFor(error),
    }
  }

  #fixFor({ status, timedOut }: UpstreamError): string {
    const { upstream, modelSetting, settings } = this.#target
    if (timedOut) return `raise upstreams.${upstream}.call_timeout_seconds, or look at the log of the server`
    if (status === 401 || status === 403)
      return `set ${settings.api_key_env ?? 'the headers'} to a valid key of this server`
    if (status === 402 || status === 429)
      return 'add credit to the account of this key, or wait until its limit resets'
    if (status === 404) return `set ${modelSetting} to a model of the server`
    if (status === 200)
      return `correct upstreams.${upstream}.base_url: this is not the format of chat completions`
    return 'see the message of the server, or its log'
  }
}

/** The format of the request may be wrong. Errors about the key, a limit or the server have other causes. */
function isRejected({ status }: UpstreamError): boolean {
  return status !== null && (status === 500 || (status < 500 && ![401, 402, 403, 429].includes(status)))
}

function timedOut({ reply }: Called): boolean {
  return reply.kind === 'error' && reply.timedOut
}

function tokensOf(reply: Reply): { readonly input: number; readonly output: number } {
  return reply.tokens ?? { input: 0, output: 0 }
}
