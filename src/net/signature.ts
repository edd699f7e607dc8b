/**
 * Signs callbacks as Standard Webhooks says, so that a receiver can tell them from forgeries with a library it may
 * already have. `node:crypto` does it in native code; the tests hold it to the package `standardwebhooks`.
 */
import { createHmac, randomBytes } from 'node:crypto'

const PREFIX = 'whsec_'

/** Standard Webhooks wants 24 to 64 bytes; these are as many as the hash has. */
const SECRET_BYTES = 32

/** A new signing secret: `whsec_` and base64. */
export function makeSecret(random: (bytes: number) => Uint8Array = randomBytes): string {
  return PREFIX + Buffer.from(random(SECRET_BYTES)).toString('base64')
}

/**
 * The value of the header `webhook-signature`: one `v1,…` for each secret, parted by spaces. While a rotated secret still
 * counts both are given, so a receiver may know either. `id` and `timestampS` are the headers `webhook-id` and
 * `webhook-timestamp`, `body` is exactly what is sent.
 */
export function sign(secrets: readonly string[], id: string, timestampS: number, body: string): string {
  if (secrets.length === 0) throw new Error('a callback needs a secret to be signed with')
  return secrets.map((secret) => `v1,${digest(secret, `${id}.${timestampS}.${body}`)}`).join(' ')
}

function digest(secret: string, text: string): string {
  const key = Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret, 'base64')
  if (key.length === 0) throw new Error('a signing secret is empty')
  return createHmac('sha256', key).update(text).digest('base64')
}
