/**
 * Decides which deliveries may be sent, and which may wait on this node. Every rule depends only on the arguments.
 *
 * - A receiver gets as many concurrent attempts as it has capacity for, and an origin as many as the setting permits. The last
 *   eighth of these is for accounts that have fewer than an eighth there.
 * - Receivers that are not proven to respond can together occupy half of a delivery queue's slots; those of one account an
 *   eighth.
 * - The last eighth of the slots is for accounts that occupy less than an eighth.
 *
 * So slots always remain for receivers that respond, however many other receivers hang or are slow.
 */
import type { ReadonlyCounts } from '../sharing/counts.ts'
import * as fairSlots from '../sharing/fair-slots.ts'
import type { Receiver } from './receiver-limit.ts'

/** How many deliveries may wait for an unproven receiver. Few, because their wait may be long. */
const MAX_WAITING_UNPROVEN = 2

export interface Limits {
  /** Maximum concurrent attempts of a delivery queue. An attempt occupies its slot until it is recorded. */
  readonly slots: number
  /** Maximum concurrent attempts to one origin, from both delivery queues together. */
  readonly slotsPerOrigin: number
}

/** What a delivery queue and its receivers are doing. Attempts count from both delivery queues. */
export interface InFlight {
  /** Deliveries that occupy a slot, by account. */
  readonly occupied: ReadonlyCounts<string>
  /** Attempts in progress whose receiver was not proven to respond when they began, by account. */
  readonly unproven: ReadonlyCounts<string>
  /** Deliveries that wait for a slot, by account. */
  readonly waiting: ReadonlyCounts<string>
  readonly waitingByReceiver: ReadonlyMap<Receiver, { readonly size: number }>
  /** Attempts in progress from both delivery queues. */
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

/**
 * Whether a delivery that cannot be sent now may wait on this node, because it is likely to be sent soon. Otherwise it is
 * deferred.
 */
export function mayWait(limits: Limits, inFlight: InFlight, receiver: Receiver): boolean {
  const maxForReceiver = receiver.isProven ? limits.slotsPerOrigin : MAX_WAITING_UNPROVEN
  return (
    !receiver.isFailing &&
    (inFlight.waitingByReceiver.get(receiver)?.size ?? 0) < maxForReceiver &&
    inFlight.waiting.total < share(limits, 2) &&
    inFlight.waiting.of(receiver.account) < share(limits, 4)
  )
}

/** How many deferred deliveries to take for a receiver to which at least one may be sent now. */
export function deferredToClaim(limits: Limits, inFlight: InFlight, receiver: Receiver): number {
  return receiver.isFailing ? receiverCapacity(inFlight, receiver) : limits.slotsPerOrigin
}

export function freeSlots(limits: Limits, inFlight: InFlight): number {
  return limits.slots - inFlight.occupied.total
}

/** How many slots the queue has without the reserve. */
export function sharedSlots(limits: Limits): number {
  return Math.max(1, limits.slots - share(limits, 8))
}

/** Whether no slot is free except reserved ones. */
export function onlyReserveLeft(limits: Limits, inFlight: InFlight): boolean {
  return fairSlots.freeSharedSlots(slotsOf(limits), inFlight.occupied) <= 0
}

/**
 * How many slots are free without the reserve; 0 or less if there are none. Also 0 if so many deliveries wait for their
 * receivers that more of them would have to wait, too.
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

/** A fraction (one of `parts`) of the slots, at least one. */
function share(limits: Limits, parts: number): number {
  return Math.max(1, Math.floor(limits.slots / parts))
}
