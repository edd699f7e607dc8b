/**
 * Decides which deliveries may be sent, and which may wait on this node. However much one account sends, the last eighth of
 * the slots of a delivery queue, and of the attempts to an origin, remains for others.
 *
 * - A receiver gets as many concurrent attempts as its limit permits, and an origin as many as the setting permits. The last
 *   eighth of an origin's attempts is for accounts that have fewer than an eighth there.
 * - All receivers that are not proven to respond can together occupy half of a delivery queue's slots. Those of one account can
 *   occupy an eighth.
 * - The last eighth of the slots is for accounts that occupy less than an eighth.
 *
 * Because of these rules, slots remain for receivers that respond, however many other receivers hang or are slow.
 */
import type { ReadonlyCounts } from '../sharing/counts.ts'
import * as fairSlots from '../sharing/fair-slots.ts'
import type { Receiver } from './receiver-limit.ts'

/** Only this many deliveries may wait for an unproven receiver, because their wait may be long. */
const MAX_WAITING_UNPROVEN = 2

export interface Limits {
  /** An attempt occupies its slot until the store has recorded the result. */
  readonly slots: number
  /** Both delivery queues together may have this many concurrent attempts to one origin. */
  readonly slotsPerOrigin: number
}

export interface InFlight {
  /** This count and the next two are by account, and cover one delivery queue. */
  readonly occupied: ReadonlyCounts<string>
  /** The receivers of these attempts were not proven to respond when the attempts began. */
  readonly unproven: ReadonlyCounts<string>
  /** These deliveries wait for a slot or for their receiver. */
  readonly waiting: ReadonlyCounts<string>
  readonly waitingByReceiver: ReadonlyMap<Receiver, { readonly size: number }>
  /** This count and the next one cover both delivery queues. */
  readonly toReceiver: ReadonlyCounts<Receiver>
  readonly toOrigin: ReadonlyCounts<string>
}

export function maySend(limits: Limits, inFlight: InFlight, receiver: Receiver): boolean {
  const { account, origin } = receiver
  if (!fairSlots.mayAcquire(slotsOf(limits), inFlight.occupied, account)) return false
  if (receiverCapacity(inFlight, receiver) <= 0) return false
  const reserve = Math.floor(limits.slotsPerOrigin / 8)
  const most = limits.slotsPerOrigin - (inFlight.toReceiver.of(receiver) < reserve ? 0 : reserve)
  if (inFlight.toOrigin.of(origin) >= most) return false
  if (receiver.isProven) return true
  return inFlight.unproven.total < share(limits, 2) && inFlight.unproven.of(account) < share(limits, 8)
}

/** Returns whether a delivery may wait on this node, because it will probably be sent soon. Others are deferred. */
export function mayWait(limits: Limits, inFlight: InFlight, receiver: Receiver): boolean {
  const maxForReceiver = receiver.isProven ? limits.slotsPerOrigin : MAX_WAITING_UNPROVEN
  return (
    !receiver.isFailing &&
    (inFlight.waitingByReceiver.get(receiver)?.size ?? 0) < maxForReceiver &&
    inFlight.waiting.total < share(limits, 2) &&
    inFlight.waiting.of(receiver.account) < share(limits, 4)
  )
}

/** Returns how many deferred deliveries to take for a receiver that can get at least one now. */
export function deferredToClaim(limits: Limits, inFlight: InFlight, receiver: Receiver): number {
  return receiver.isFailing ? receiverCapacity(inFlight, receiver) : limits.slotsPerOrigin
}

export function freeSlots(limits: Limits, inFlight: InFlight): number {
  return limits.slots - inFlight.occupied.total
}

export function sharedSlots(limits: Limits): number {
  return Math.max(1, limits.slots - share(limits, 8))
}

export function onlyReserveLeft(limits: Limits, inFlight: InFlight): boolean {
  return fairSlots.freeSharedSlots(slotsOf(limits), inFlight.occupied) <= 0
}

/**
 * Returns how many slots are free without the reserve; 0 or less if there are none. Also returns 0 while many deliveries wait
 * for their receivers, because further deliveries would probably have to wait, too.
 */
export function freeSharedSlots(limits: Limits, inFlight: InFlight): number {
  const isCrowded = inFlight.waiting.total >= share(limits, 8)
  return isCrowded ? 0 : fairSlots.freeSharedSlots(slotsOf(limits), inFlight.occupied)
}

export function mayUseReserve(limits: Limits, inFlight: InFlight, account: string): boolean {
  return fairSlots.mayUseReserve(slotsOf(limits), inFlight.occupied, account)
}

function slotsOf(limits: Limits): fairSlots.FairSlotsOptions {
  const { slots } = limits
  return { limit: slots, reserve: slots - sharedSlots(limits), reserveUpTo: share(limits, 8) }
}

function receiverCapacity(inFlight: InFlight, receiver: Receiver): number {
  return receiver.limit - inFlight.toReceiver.of(receiver)
}

/** Returns a fraction of the slots (one of `parts`), but at least one slot. */
function share(limits: Limits, parts: number): number {
  return Math.max(1, Math.floor(limits.slots / parts))
}
