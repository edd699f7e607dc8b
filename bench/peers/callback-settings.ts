/** What a peer that delivers callbacks is told: the same for each of them. */
import type { OwedOptions } from '../load/owed-callbacks.ts'

export interface CallbackSettings extends OwedOptions {
  /** Callbacks under way at once. */
  readonly concurrency: number
  /** Deadline of an attempt. */
  readonly timeoutMs: number
}

export type CallbackOrder = { readonly kind: 'go' } | { readonly kind: 'delivered?' }
