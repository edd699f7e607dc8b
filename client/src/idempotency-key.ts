/** Makes the Idempotency-Key of a create: 128 random bits. */
export function newIdempotencyKey(): string {
  // `randomUUID` is missing on pages that are served without TLS.
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
