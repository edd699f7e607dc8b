/** Why the node that served the page holds an account back, in words. Other nodes decide for themselves and show it on their own pages. */
import type { HeldBack } from '../contract.ts'

const REASONS: Readonly<Record<HeldBack['reason'], string>> = {
  slots: 'It holds its share of the slots; the reserve is for accounts without a slot.',
  memory: 'Its next large job waits for memory for running jobs.',
}

export function reasonText({ reason }: HeldBack): string {
  return REASONS[reason]
}
