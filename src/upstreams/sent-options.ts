/** Sends the options of a job under the names that a model server accepts, which differ for `max_tokens`. */
import type { UpstreamSettings } from '../config/settings.ts'
import type { JobOptions } from '../job/options.ts'
import type { RequestFormat, UpstreamError } from './model-server.ts'

/** Most servers accept the older name; OpenAI requires the newer one for reasoning models. */
const NAMES = ['max_tokens', 'max_completion_tokens'] as const
const [OLDER, NEWER] = NAMES
type Name = (typeof NAMES)[number]

const MAX_TOKENS = '"max_tokens":'
const REJECTIONS: readonly (number | null)[] = [400, 422]
/** Errors about a value that is too large do not contain these words. */
const UNSUPPORTED =
  /unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|instead|extra/i

/** Remembers which name each model accepts: at first the server's usual one, after a rejection the one that was answered. */
export class SentOptions {
  readonly #body: UpstreamSettings['body']
  readonly #usual: Name
  readonly #learned = new Map<string, Name>()

  /** @param isOpenAi whether the server belongs to OpenAI or Azure */
  constructor(body: UpstreamSettings['body'], isOpenAi: boolean) {
    this.#body = body
    this.#usual = isOpenAi ? NEWER : OLDER
  }

  /** The format with the name for this model, if the prompt has the option. */
  named(format: RequestFormat, model: string, optionsJson: string): RequestFormat {
    if (!optionsJson.includes(MAX_TOKENS)) return format
    return withName(format, this.#nameFor(model))
  }

  /** The format with the other name, if the server rejects the first one; null if it does not, or if both were tried. */
  renamed(
    format: RequestFormat,
    model: string,
    optionsJson: string,
    { status, message }: UpstreamError,
  ): RequestFormat | null {
    const name = nameIn(format)
    if (!optionsJson.includes(MAX_TOKENS) || name !== this.#nameFor(model)) return null
    if (!REJECTIONS.includes(status) || !message.includes(name) || !UNSUPPORTED.test(message)) return null
    return withName(format, name === OLDER ? NEWER : OLDER)
  }

  /** Records that the server answered a request in this format. */
  answered(format: RequestFormat, model: string, optionsJson: string): void {
    if (optionsJson.includes(MAX_TOKENS)) this.#learned.set(model, nameIn(format))
  }

  /** The end of a request's body: the fields of `body` in the settings, except those that the job's options replace. */
  bodyEnd(format: RequestFormat, optionsJson: string): string {
    const { max_tokens, ...options }: JobOptions = JSON.parse(optionsJson)
    const fields: Record<string, unknown> = { ...this.#body, ...options }
    if (max_tokens !== undefined) {
      for (const name of NAMES) delete fields[name]
      fields[nameIn(format)] = max_tokens
    }
    return `,${JSON.stringify(fields).slice(1)}`
  }

  #nameFor(model: string): Name {
    return this.#learned.get(model) ?? this.#usual
  }
}

function nameIn({ max_tokens_as }: RequestFormat): Name {
  return max_tokens_as ?? OLDER
}

function withName(format: RequestFormat, name: Name): RequestFormat {
  const { max_tokens_as: _, ...others } = format
  return name === NEWER ? { ...others, max_tokens_as: NEWER } : others
}
