/** Waits for a condition while a test makes requests. */
import { eventually } from '../support/eventually.ts'

/** Resolves when the condition holds, or when the work has ended. Rejects if the work fails before. */
export async function during(work: Promise<unknown>, holds: () => boolean): Promise<void> {
  const over = new AbortController()
  try {
    await Promise.race([work, eventually(holds, Boolean, over)])
  } finally {
    over.abort()
  }
}
