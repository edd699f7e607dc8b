/**
 * A model server without a network, so that every state of a job can be seen in a minute. Its answers say that they are
 * simulated.
 *
 * It obeys directives inside a user message; of several messages with directives the last one counts:
 * `[[delay 2s]]` (or `[[delay 200ms]]`) answers later, `[[fail model_error]]`, `[[fail content_policy_violation]]` and
 * `[[fail timeout]]` fail, `[[bad-json]]` answers with text that is no JSON, `[[bad-json once]]` only until it is shown
 * its error.
 */
import type { Clock } from '../clock.ts'
import type { Message } from '../job/job.ts'
import { Stop, type StopSignal } from '../job/stop.ts'
import { makeInstance } from '../json-schema/make-instance.ts'
import { readSchema } from '../json-schema/read-schema.ts'
import type { AnswerForm, ModelServer, Prompt, Reply, RequestFormat, TokenCount } from './model-server.ts'
import { pause } from './pause.ts'
import { upstreamError } from './read-completion.ts'

/** A longer delay is cut to this: enough to see a wait time out (120 s at most), short enough to see the end. */
export const LONGEST_DELAY_MS = 180_000
/** How much of the user's message the answer repeats. */
export const ECHOED_CHARACTERS = 2_000

/** Given for `[[bad-json]]`; it holds no directive, so that a repair request may quote it. */
export const BAD_JSON =
  'This simulated answer is no JSON, because the message asked for that: {"simulated": tru'

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

  mannerFor(form: AnswerForm): RequestFormat {
    return form.kind === 'text' ? { roles: 'native' } : { roles: 'native', json_mode: 'simulated' }
  }

  async ask(_model: string, prompt: Prompt, signal: StopSignal): Promise<Reply> {
    const directives = directivesOf(prompt.messages)
    if (directives.delayMs > 0) await this.#delay(directives.delayMs, signal)
    if (signal.reason !== null || this.#closing.reason !== null) {
      return upstreamError({ aborted: true, message: 'The simulated call was ended before it was answered.' })
    }
    const input = tokensOf(prompt.messages)
    return directives.fail === null
      ? answer(prompt, input, directives.badJson)
      : failure(directives.fail, input)
  }

  /** Ended early by the signal and by closing. */
  async #delay(ms: number, signal: StopSignal): Promise<void> {
    const either = new Stop()
    const listener = { onStop: () => either.now('give back') }
    for (const one of [signal, this.#closing]) one.listen(listener)
    await pause(this.#clock, ms, either)
    for (const one of [signal, this.#closing]) one.unlisten(listener)
  }

  close(): Promise<void> {
    this.#closing.now('give back')
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
  return { delayMs: Math.min(delayMs, LONGEST_DELAY_MS), fail, badJson }
}

/** Made anew each time, because a global expression remembers where it stopped. */
function directive(): RegExp {
  return /\[\[(?:delay (\d{1,9}(?:\.\d{1,9})?)(ms|s)|fail (model_error|content_policy_violation|timeout)|(bad-json)( once)?)\]\]/g
}

/** A repair request shows the model the answer it gave. */
function showsBadJson(message: Message): boolean {
  return message.content.includes(BAD_JSON)
}

/** Not worth retrying, whatever it stands for: whoever asked for a failure wants to see it, not three rounds of it. */
function failure(code: NonNullable<Directives['fail']>, input: number): Reply {
  switch (code) {
    case 'model_error':
      return upstreamError({
        status: 500,
        message: 'Simulated: the model server failed, as the message asked.',
      })
    case 'timeout':
      return upstreamError({ timedOut: true, message: 'Simulated: the model did not answer in time.' })
    case 'content_policy_violation':
      return {
        kind: 'refused',
        status: 400,
        message: 'Simulated: the conversation breaks the content policy, as the message asked.',
        tokens: { input, output: 0 },
      }
  }
}

function answer(prompt: Prompt, input: number, badJson: boolean): Reply {
  const text = badJson ? BAD_JSON : answerText(prompt.form, echoOf(prompt.messages))
  if (text === null) {
    return upstreamError({ message: 'Simulated: no example of an answer could be made for this schema.' })
  }
  const tokens: TokenCount = { input, output: tokensIn(text) }
  return { kind: 'answer', text, tokens }
}

function answerText(form: AnswerForm, echo: string): string | null {
  switch (form.kind) {
    case 'text':
      return `This is a simulated answer; the last message was: "${echo}"`
    case 'json':
      return JSON.stringify({ simulated: true, last_message: echo })
    case 'schema': {
      const read = readSchema(form.schema)
      const made = read.ok ? makeInstance(read.schema) : null
      return made?.ok ? JSON.stringify(made.value) : null
    }
  }
}

/** The last user message without its directives. */
function echoOf(messages: readonly Message[]): string {
  const last = messages.findLast((message) => message.role === 'user')?.content ?? ''
  const words = last.replace(directive(), '').trim()
  return words.length <= ECHOED_CHARACTERS
    ? words
    : `${words
        .slice(0, ECHOED_CHARACTERS)
        .toWellFormed()
        .replace(/\uFFFD$/, '')}…`
}

function tokensOf(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + 4 + tokensIn(message.content), 0)
}

/** About four characters a token, as in English text. */
function tokensIn(text: string): number {
  return Math.ceil(text.length / 4)
}
