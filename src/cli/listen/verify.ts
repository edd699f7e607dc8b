/** Whether a callback is what the server sent, as the package `standardwebhooks` finds it, and if not, why in clear words. */
import type { IncomingHttpHeaders } from 'node:http'
import { Webhook } from 'standardwebhooks'
import type { FoundSecrets, SecretSource } from './secrets.ts'

/** Standard Webhooks' tolerance: an older callback may be one that somebody recorded and sends again. */
const TOLERANCE_S = 300

const HEADERS = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const

/** `unchecked`: there was no secret to check it with. `why` is for people. */
export type Verdict =
  | { readonly kind: 'verified' }
  | { readonly kind: 'unverified'; readonly why: string }
  | { readonly kind: 'unchecked'; readonly why: string }

export class Verifier {
  readonly #source: SecretSource
  #found: FoundSecrets
  #hasVerified = false

  private constructor(source: SecretSource, found: FoundSecrets) {
    this.#source = source
    this.#found = found
  }

  static async of(source: SecretSource): Promise<Verifier> {
    return new Verifier(source, await source.look())
  }

  /** What callbacks are held against now, or why nothing can be. */
  get secrets(): FoundSecrets {
    return this.#found
  }

  async verdict(headers: IncomingHttpHeaders, body: string): Promise<Verdict> {
    const problem = headerProblem(headers, Math.floor(Date.now() / 1000))
    if (problem !== null) return { kind: 'unverified', why: problem }
    // Where none fits, the secret may be newer than what we know.
    const fits = this.#fits(headers, body) || (await this.#lookAgain(headers, body))
    if (fits) {
      this.#hasVerified = true
      return { kind: 'verified' }
    }
    if (this.#found.secrets.length === 0) return { kind: 'unchecked', why: this.#found.says }
    return { kind: 'unverified', why: this.#mismatch() }
  }

  async #lookAgain(headers: IncomingHttpHeaders, body: string): Promise<boolean> {
    this.#found = await this.#source.look()
    return this.#fits(headers, body)
  }

  #fits(headers: IncomingHttpHeaders, body: string): boolean {
    return this.#found.secrets.some((secret) => verifies(secret, headers, body))
  }

  /** A signature cannot tell a changed callback from another's secret; that the secret fitted before makes one likelier. */
  #mismatch(): string {
    const { says } = this.#found
    return this.#hasVerified
      ? `no signature fits, although ${says} fitted others: body, webhook-id or webhook-timestamp was changed on the way, or another account's secret signed it`
      : `no signature fits: it is not ${says} that signed it, or body, webhook-id or webhook-timestamp was changed on the way`
  }
}

/** Whether `standardwebhooks` can use the text as a secret. */
export function isSecret(text: string): boolean {
  if (!/^whsec_./.test(text)) return false
  try {
    new Webhook(text)
    return true
  } catch {
    return false
  }
}

function verifies(secret: string, headers: IncomingHttpHeaders, body: string): boolean {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>, { jsonParse: false })
    return true
  } catch {
    return false
  }
}

function headerProblem(headers: IncomingHttpHeaders, nowS: number): string | null {
  const missing = HEADERS.filter((name) => !headers[name])
  if (missing.length > 0) {
    return `the header${missing.length > 1 ? 's' : ''} ${missing.join(', ')} ${missing.length > 1 ? 'are' : 'is'} missing`
  }
  const timestamp = String(headers['webhook-timestamp'])
  if (!/^\d{1,15}$/.test(timestamp)) return 'webhook-timestamp is not a number of seconds'
  const ageS = nowS - Number(timestamp)
  if (ageS > TOLERANCE_S) {
    return `old timestamp: webhook-timestamp is ${ageS} s ago, ${TOLERANCE_S} is the most; an old callback was sent again, or the clocks differ`
  }
  if (ageS < -TOLERANCE_S) {
    return `webhook-timestamp is ${-ageS} s ahead, ${TOLERANCE_S} is the most: the clocks differ`
  }
  return null
}
