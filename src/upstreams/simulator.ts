/**
 * Simulates a model server without a network, so that you can see every state of a job within a minute. The answers state that
 * they are simulated.
 *
 * The simulator follows directives in the last user message that has any: `[[delay 2s]]` (or `[[delay 200ms]]`) delays the
 * reply; `[[fail model_error]]`, `[[fail content_policy_violation]]` and `[[fail timeout]]` fail; `[[bad-json]]` answers with
 * invalid JSON, and `[[bad-json once]]` only until the conversation contains that answer.
 */

import { makeExample, readSchema } from 'parley-json-schema'
import type { Clock } from '../clock.ts'
import type { Message, SchemaObject } from '../job/job.ts'
import { ANY_OBJECT_JSON } from '../job/response-format.ts'
import { pause, Stop, type StopSignal } from '../job/stop.ts'
import type { AnswerForm, ModelServer, Prompt, Reply, RequestFormat, TokenCount } from './model-server.ts'
import { upstreamError } from './read-completion.ts'

/** The longest delay is long enough to see a wait time out (after at most 120 s), and short enough to see the job finish. */
export const MAX_DELAY_MS = 180_000
export const ECHOED_CHARACTERS = 2_000

/** The answer to `[[bad-json]]` contains no directive, because a repair request quotes it. */
export const BAD_JSON =
  'This simulated answer is not valid JSON, because the message asked for that: {"simulated": tru'

interface Directives {
  readonly delayMs: number
  readonly fail: 'model_error' | 'content_policy_violation' | 'timeout' | null
  readonly badJson: boolean
}

export class Simulator implements ModelServer {
  readonly name: string
  readonly #clock: Clock
  readonly #closing = new Stop()

  constructor(clock: Clock, name = 'simulator') {
    this.name = name
    this.#clock = clock
  }

  requestFormat(_model: string, { form }: Prompt): RequestFormat {
    return form.kind === 'text' ? { roles: 'native' } : { roles: 'native', json_mode: 'simulated' }
  }

  otherFormat(): null {
    return null
  }

  learnedRoles(): null {
    return null
  }

  async ask(_model: string, prompt: Prompt, _format: RequestFormat, signal: StopSignal): Promise<Reply> {
    const messages = JSON.parse(prompt.messagesJson) as Message[]
    const directives = directivesOf(messages)
    if (directives.delayMs > 0) await this.#delay(directives.delayMs, signal)
    if (signal.reason !== null || this.#closing.reason !== null) {
      return upstreamError({
        aborted: true,
        message: 'The simulated call was aborted before it was answered.',
      })
    }
    const input = tokensOf(messages)
    return directives.fail === null
      ? answer(prompt.form, messages, input, directives.badJson)
      : failure(directives.fail, input)
  }

  /** Resolves after the delay, or earlier if the signal stops it or the simulator closes. */
  async #delay(ms: number, signal: StopSignal): Promise<void> {
    const either = new Stop()
    const listener = { onStop: () => either.now('release') }
    const signals = [signal, this.#closing]
    for (const each of signals) each.listen(listener)
    await pause(this.#clock, ms, either)
    for (const each of signals) each.unlisten(listener)
  }

  check(): Promise<null> {
    return Promise.resolve(null)
  }

  close(): Promise<void> {
    this.#closing.now('release')
    return Promise.resolve()
  }
}

function directivesOf(messages: readonly Message[]): Directives {
  const found = messages.findLastIndex(
    (message) => message.role === 'user' && directive().test(message.content),
  )
  let delayMs = 0
  let fail: Directives['fail'] = null
  let badJson = false
  for (const [, delay, unit, failure, , once] of messages[found]?.content.matchAll(directive()) ?? []) {
    if (delay !== undefined) delayMs = Number(delay) * (unit === 'ms' ? 1 : 1000)
    else if (failure !== undefined) fail = failure as Directives['fail']
    else badJson = once === undefined || !messages.slice(found + 1).some(showsBadJson)
  }
  return { delayMs: Math.min(delayMs, MAX_DELAY_MS), fail, badJson }
}

/** A global expression remembers where it stopped, so each use gets a new one. */
function directive(): RegExp {
  return /\[\[(?:delay (\d{1,9}(?:\.\d{1,9})?)(ms|s)|fail (model_error|content_policy_violation|timeout)|(bad-json)( once)?)\]\]/g
}

/** A repair request contains the simulator's invalid answer. */
function showsBadJson(message: Message): boolean {
  return message.content.includes(BAD_JSON)
}

/** The failures are not retryable, because a caller that requests one wants to see it once, not three times. */
function failure(code: NonNullable<Directives['fail']>, input: number): Reply {
  switch (code) {
    case 'model_error':
      return upstreamError({
        status: 500,
        message: 'Simulated: the model server failed, as the message requested.',
      })
    case 'timeout':
      return upstreamError({ timedOut: true, message: 'Simulated: the model did not answer in time.' })
    case 'content_policy_violation':
      return {
        kind: 'refused',
        status: 400,
        message: 'Simulated: the conversation violates the content policy, as the message requested.',
        tokens: { input, output: 0 },
      }
  }
}

function answer(form: AnswerForm, messages: readonly Message[], input: number, badJson: boolean): Reply {
  const text = badJson ? BAD_JSON : answerText(form, echoOf(messages))
  if (text === null) {
    return upstreamError({ message: 'Simulated: cannot generate an instance of this schema.' })
  }
  const tokens: TokenCount = { input, output: tokensIn(text) }
  return { kind: 'answer', text, tokens }
}

function answerText(form: AnswerForm, echo: string): string | null {
  switch (form.kind) {
    case 'text':
      return `This is a simulated answer; the last message was: "${echo}"`
    case 'json':
      return echoJson(echo)
    case 'schema': {
      if (form.schemaJson === ANY_OBJECT_JSON) return echoJson(echo)
      const read = readSchema(JSON.parse(form.schemaJson) as SchemaObject)
      const example = read.ok ? makeExample(read.schema) : null
      return example === null ? null : JSON.stringify(example.value)
    }
  }
}

function echoJson(echo: string): string {
  return JSON.stringify({ simulated: true, last_message: echo })
}

function echoOf(messages: readonly Message[]): string {
  const last = messages.findLast((message) => message.role === 'user')?.content ?? ''
  const text = last.replace(directive(), '').trim()
  return text.length <= ECHOED_CHARACTERS
    ? text
    : `${text
        .slice(0, ECHOED_CHARACTERS)
        .toWellFormed()
        .replace(/\uFFFD$/, '')}…`
}

function tokensOf(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + 4 + tokensIn(message.content), 0)
}

/** English text has about four characters per token. */
function tokensIn(text: string): number {
  return Math.ceil(text.length / 4)
}
