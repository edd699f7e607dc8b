/**
 * Fair order between accounts: in which order queued jobs are claimed. It is start-time fair queueing, and both stores
 * implement it (`sqlite/fair-order.ts`, `postgres/fair-order.ts`): a job that is queued takes as its **turn** the later of
 * the queue's turn (that of the job claimed last) and its account's next turn, and moves the latter on by its step. Claims
 * take the least turn first. So an account with a hundred thousand queued jobs delays only its own, and a claim stays one
 * index scan.
 */
import type { Tier } from '../job/tier.ts'

/** How far a job moves its account's next turn: with twice the weight, half as far. */
export function turnStep(tier: Pick<Tier, 'weight'>): number {
  return Math.max(1, Math.round(1000 / tier.weight))
}
