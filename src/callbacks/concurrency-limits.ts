/**
 * Decides which deliveries may be sent, and which may wait on this node. Every rule is a pure function of what is in flight.
 *
 * - A receiver gets as many concurrent attempts as it has capacity for, and an origin as many as the setting allows. The last
 *   eighth of these is for accounts with fewer attempts there.
 * - Receivers that are not proven to respond may together occupy half of a delivery queue's slots; those of one account an
 *   eighth.
 * - The last eighth of the slots is reserved for accounts that occupy less than an eighth.
 *
 * So however many receivers of whichever accounts hang or are slow, slots remain for those that respond.
 */
import type { ReadonlyCounts } from '../sharing/counts.ts'
import * as fairSlots from '../sharing/fair-slots.ts'
import type { Receiver } from './receiver-limit.ts'

/** Deliveries that may wait for an unproven receiver: few, because their wait may be long. */
const MAX_WAITING_UNPROVEN = 2

export interface Limits {
  /** Maximum concurrent attempts of a delivery queue, from the claim of a slot until the attempt is recorded. */
  readonly slots: number
  /** Maximum concurrent attempts to one origin, of both delivery queues together. */
  readonly slotsPerOrigin: number
}

/** The deliveries of one delivery queue that occupy a slot or wait for one, and the attempts of both queues. */
export interface InFlight {
  /** Deliveries that occupy a slot, by account. */
  readonly occupied: ReadonlyCounts<string>
  /** Attempts in progress, by account, whose receiver was not proven to respond when the attempt began. */
  readonly unproven: ReadonlyCounts<string>
  /** Deliveries that wait for a slot, by account. */
  readonly waiting: ReadonlyCounts<string>
  readonly waitingByReceiver: ReadonlyMap<Receiver, { readonly size: number }>
  /** Attempts in progress of both delivery queues. */
  readonly toReceiver: ReadonlyCounts<Receiver>
  readonly toOrigin: ReadonlyCounts<string>
}

/** Whether an attempt at the receiver may start now. */
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

/** Whether a delivery that cannot be sent now may wait on this node: only if it has a chance to be sent soon. */
export function mayWait(limits: Limits, inFlight: InFlight, receiver: Receiver): boolean {
  const maxForReceiver = receiver.isProven ? limits.slotsPerOrigin : MAX_WAITING_UNPROVEN
  return (
    !receiver.isFailing &&
    (inFlight.waitingByReceiver.get(receiver)?.size ?? 0) < maxForReceiver &&
    inFlight.waiting.total < share(limits, 2) &&
    inFlight.waiting.of(receiver.account) < share(limits, 4)
  )
}

/** How many deferred deliveries to claim for a receiver to which one may be sent now. */
export function deferredToClaim(limits: Limits, inFlight: InFlight, receiver: Receiver): number {
  return receiver.isFailing ? receiverCapacity(inFlight, receiver) : limits.slotsPerOrigin
}

export function freeSlots(limits: Limits, inFlight: InFlight): number {
  return limits.slots - inFlight.occupied.total
}

/** Slots without the reserve. */
export function sharedSlots(limits: Limits): number {
  return Math.max(1, limits.slots - share(limits, 8))
}

/** Whether only reserved slots are free, or none. */
export function onlyReserveLeft(limits: Limits, inFlight: InFlight): boolean {
  return fairSlots.freeSharedSlots(slotsOf(limits), inFlight.occupied) <= 0
}

/**
 * Free slots without the reserve. 0 or less if there are none, or if so many deliveries wait for their receivers that further
 * ones would have to wait, too.
 */
export function freeSharedSlots(limits: Limits, inFlight: InFlight): number {
  const isCrowded = inFlight.waiting.total >= share(limits, 8)
  return isCrowded ? 0 : fairSlots.freeSharedSlots(slotsOf(limits), inFlight.occupied)
}

/** Whether the account occupies so few slots that it may use the reserve. */
export function mayUseReserve(limits: Limits, inFlight: InFlight, account: string): boolean {
  return fairSlots.mayUseReserve(slotsOf(limits), inFlight.occupied, account)
}

function slotsOf(limits: Limits): fairSlots.FairSlotsOptions {
  const { slots } = limits
  return { limit: slots, reserve: slots - sharedSlots(limits), reserveUpTo: share(limits, 8) }
}

/** How many more attempts the receiver has capacity for. */
function receiverCapacity(inFlight: InFlight, receiver: Receiver): number {
  return receiver.limit - inFlight.toReceiver.of(receiver)
}

/** A fraction of the slots, at least one. */
function share(limits: Limits, parts: number): number {
  return Math.max(1, Math.floor(limits.slots / parts))
}
