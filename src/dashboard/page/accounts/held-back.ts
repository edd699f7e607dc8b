/**
 * Explains why the node that served the page delays an account. Other nodes decide for themselves and show it on their own
 * pages.
 */
import type { HeldBack } from '../contract.ts'

const REASONS: Readonly<Record<HeldBack['reason'], string>> = {
  slots: 'The account uses its full share of the slots; the rest is reserved for accounts without a slot.',
  memory: 'Its next large job waits for memory.',
}

export function reasonText({ reason }: HeldBack): string {
  return REASONS[reason]
}
