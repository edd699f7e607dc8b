/** Generates an Idempotency-Key: 128 random bits. */
export function newIdempotencyKey(): string {
  // Browsers do not offer `randomUUID` on pages without TLS.
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
