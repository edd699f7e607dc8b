/** Verifies the signatures of callbacks with the package `standardwebhooks`, and explains why a signature is wrong. */
import type { IncomingHttpHeaders } from 'node:http'
import { Webhook } from 'standardwebhooks'

/** A callback's timestamp may differ from the current time by this much. A recorded callback can thus not be replayed later. */
const TOLERANCE_S = 300

const HEADERS = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const

/** `says` names the origin of the secrets. If `secrets` is empty, no callback can be verified, and `says` explains why. */
export interface FoundSecrets {
  readonly secrets: readonly string[]
  readonly says: string
}

/** `look` never rejects. A later call may return other secrets, for example after a rotation. */
export interface SecretSource {
  look(): Promise<FoundSecrets>
}

/** `unchecked` means that no secret was found. `why` is a message for the user. */
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

  get secrets(): FoundSecrets {
    return this.#found
  }

  async verdict(headers: IncomingHttpHeaders, body: string): Promise<Verdict> {
    const problem = headerProblem(headers, Math.floor(Date.now() / 1000))
    if (problem !== null) return { kind: 'unverified', why: problem }
    // The secret may have been rotated since it was read, so a mismatch reads it again.
    const matches = this.#matches(headers, body) || (await this.#matchesAfterReload(headers, body))
    if (matches) {
      this.#hasVerified = true
      return { kind: 'verified' }
    }
    if (this.#found.secrets.length === 0) return { kind: 'unchecked', why: this.#found.says }
    return { kind: 'unverified', why: this.#mismatch() }
  }

  async #matchesAfterReload(headers: IncomingHttpHeaders, body: string): Promise<boolean> {
    this.#found = await this.#source.look()
    return this.#matches(headers, body)
  }

  #matches(headers: IncomingHttpHeaders, body: string): boolean {
    return this.#found.secrets.some((secret) => verifies(secret, headers, body))
  }

  /** A wrong secret looks like a changed body, but not if the secret has verified other callbacks. */
  #mismatch(): string {
    const { says } = this.#found
    return this.#hasVerified
      ? `no signature matches, although ${says} verified other callbacks: the body, webhook-id or webhook-timestamp was changed in transit, or another account's secret signed it`
      : `no signature matches: a secret other than ${says} signed it, or the body, webhook-id or webhook-timestamp was changed in transit`
  }
}

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
    return `old timestamp: webhook-timestamp is ${ageS} s in the past, at most ${TOLERANCE_S} s are allowed; an old callback was replayed, or the clocks differ`
  }
  if (ageS < -TOLERANCE_S) {
    return `webhook-timestamp is ${-ageS} s in the future, at most ${TOLERANCE_S} s are allowed; the clocks differ`
  }
  return null
}
