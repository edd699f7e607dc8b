/** Generates Idempotency-Keys like the published client's, a new one for each create. */
import { randomFillSync } from 'node:crypto'

/** The client's key is the time in milliseconds and 80 random bits, in hexadecimal. */
const TIME_DIGITS = 12
const RANDOM_BYTES = 10
export const KEY_PLACEHOLDER = '@'.repeat(TIME_DIGITS + 2 * RANDOM_BYTES)
/** For a batch, the client adds the position of its first job among all jobs of the call. */
const BATCH_KEY = `${KEY_PLACEHOLDER}.0`
/** One call generates the random bytes for many keys, because the call is most of the cost. */
const pool = Buffer.alloc(4096 * RANDOM_BYTES)
let used = pool.length

interface Keyed {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

/** The keys must look like the client's, because their order decides which pages an index writes. */
export function withKeys<T extends Keyed>(target: T): T {
  const key = target.path.endsWith('/batches') ? BATCH_KEY : KEY_PLACEHOLDER
  return { ...target, headers: { ...target.headers, 'idempotency-key': key } }
}

export function writeNewKey(request: Buffer, place: number): void {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const time = Date.now().toString(16).padStart(TIME_DIGITS, '0')
  request.write(time + pool.toString('hex', used, used + RANDOM_BYTES), place, 'latin1')
  used += RANDOM_BYTES
}
