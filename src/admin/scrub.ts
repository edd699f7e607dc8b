/** Scrubs the database for an admin action, which reports a failure instead of throwing it. */
import type { OperatorStore } from '../store/operator-store.ts'
import { messageOf } from './error-message.ts'

/** Returns null, or the reason why the database could not be scrubbed now. */
export async function tryScrub(store: Pick<OperatorStore, 'scrub'>): Promise<string | null> {
  try {
    await store.scrub()
    return null
  } catch (error) {
    return messageOf(error)
  }
}
