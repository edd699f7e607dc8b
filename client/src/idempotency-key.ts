/** Idempotency-Keys: generating them, and naming them in errors. */
import { ParleyError } from './errors.ts'

/**
 * Generates an Idempotency-Key of 32 hexadecimal digits: 12 for the time in milliseconds, as in a UUIDv7, then 80 random bits. Keys
 * that begin with the time are next to each other in the server's index, so storing them writes few pages.
 */
export function newIdempotencyKey(nowMs = Date.now()): string {
  // Browsers do not offer `randomUUID` on pages without TLS.
  const bytes = crypto.getRandomValues(new Uint8Array(10))
  const random = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return nowMs.toString(16).padStart(12, '0') + random
}

/** Returns the error with the key of the call that failed, with which the same call creates nothing twice. */
export function withKey(error: unknown, key: string | null): unknown {
  return error instanceof ParleyError ? Object.assign(error, { idempotencyKey: key ?? undefined }) : error
}
