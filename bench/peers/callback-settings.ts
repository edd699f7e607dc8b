/** Declares the settings of the peers that deliver callbacks. */
import type { OwedOptions } from '../load/owed-callbacks.ts'

export interface CallbackSettings extends OwedOptions {
  readonly concurrency: number
  readonly timeoutMs: number
}

export type CallbackOrder = { readonly kind: 'go' } | { readonly kind: 'delivered?' }
