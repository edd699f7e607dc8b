/** The settings of the peers that deliver callbacks. */
import type { OwedOptions } from '../load/owed-callbacks.ts'

export interface CallbackSettings extends OwedOptions {
  /** The number of attempts in progress at once. */
  readonly concurrency: number
  /** The deadline of an attempt. */
  readonly timeoutMs: number
}

export type CallbackOrder = { readonly kind: 'go' } | { readonly kind: 'delivered?' }
