/** Generates Idempotency-Keys, and adds them to errors. */
import { ParleyError } from './errors.ts'

/**
 * The key has 32 hexadecimal digits: 12 for the time in milliseconds, as in a version 7 UUID, and 20 random ones. New keys
 * begin with the time, so they are next to each other in the server's index, and storing them writes few pages.
 */
export function newIdempotencyKey(nowMs = Date.now()): string {
  // On pages without TLS, browsers have no `randomUUID`.
  const bytes = crypto.getRandomValues(new Uint8Array(10))
  const random = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return nowMs.toString(16).padStart(12, '0') + random
}

export function withKey(error: unknown, key: string | null): unknown {
  return error instanceof ParleyError ? Object.assign(error, { idempotencyKey: key ?? undefined }) : error
}
