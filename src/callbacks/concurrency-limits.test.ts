import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Counts } from '../sharing/counts.ts'
import {
  deferredToClaim,
  freeSharedSlots,
  freeSlots,
  type InFlight,
  type Limits,
  maySend,
  mayUseReserve,
  mayWait,
} from './concurrency-limits.ts'
import { type Health, Receiver } from './receiver-limit.ts'

const ORIGIN = 'https://a.example.com'
const LIMITS: Limits = { slots: 64, slotsPerOrigin: 16 }

function receiver(health: readonly Health[], account = 'acme'): Receiver {
  const made = new Receiver(account, ORIGIN, LIMITS.slotsPerOrigin)
  for (const one of health) made.learn(one)
  return made
}
const proven = (account?: string) => receiver(Array(16).fill('coping'), account)
const unproven = (account?: string) => receiver([], account)
const failing = (account?: string) => receiver(['overloaded', 'overloaded'], account)

function counts<Key>(...given: readonly (readonly [Key, number])[]): Counts<Key> {
  const made = new Counts<Key>()
  for (const [key, count] of given) made.add(key, count)
  return made
}

function inFlight(given: Partial<InFlight> = {}): InFlight {
  return {
    occupied: counts(),
    unproven: counts(),
    waiting: counts(),
    waitingByReceiver: new Map(),
    toReceiver: counts(),
    toOrigin: counts(),
    ...given,
  }
}

test('a receiver gets as many attempts at once as it has capacity for', () => {
  const to = unproven()
  const send = (attempts: number) => maySend(LIMITS, inFlight({ toReceiver: counts([to, attempts]) }), to)
  assert.deepEqual([0, 1, 2, 3].map(send), [true, true, false, false])
})

test('the receivers of an origin get as many attempts together as the origin may get', () => {
  const send = (attempts: number) =>
    maySend(LIMITS, inFlight({ toOrigin: counts([ORIGIN, attempts]) }), proven())
  assert.deepEqual([15, 16].map(send), [true, false])
  assert.ok(maySend(LIMITS, inFlight({ toOrigin: counts(['https://b.example.com', 16]) }), proven()))
})

test('an account leaves an eighth of the attempts at an origin to others', () => {
  const [own, others] = [proven(), proven('other')]
  const load = (attempts: number) =>
    inFlight({ toReceiver: counts([own, attempts]), toOrigin: counts([ORIGIN, attempts]) })
  const send = (attempts: number, to: Receiver) => maySend(LIMITS, load(attempts), to)
  assert.deepEqual([send(13, own), send(14, own)], [true, false])
  assert.deepEqual([send(14, others), send(15, others), send(16, others)], [true, true, false])
})

test('receivers of one account that are not proven occupy at most an eighth of the slots, and all of them half', () => {
  const send = (account: string, occupied: number) =>
    maySend(LIMITS, inFlight({ unproven: counts(['acme', 1], [account, occupied]) }), unproven(account))
  assert.deepEqual([send('other', 7), send('other', 8)], [true, false])
  const many = inFlight({ unproven: counts(...'abcdefgh'.split('').map((name) => [name, 4] as const)) })
  assert.deepEqual([maySend(LIMITS, many, unproven()), maySend(LIMITS, many, proven())], [false, true])
})

test('the last eighth of the slots is for accounts that occupy less than an eighth', () => {
  const load = inFlight({ occupied: counts(['acme', 49], ['other', 7]) })
  assert.deepEqual([maySend(LIMITS, load, proven()), maySend(LIMITS, load, proven('other'))], [false, true])
  assert.deepEqual([mayUseReserve(LIMITS, load, 'acme'), mayUseReserve(LIMITS, load, 'other')], [false, true])
  assert.deepEqual([freeSlots(LIMITS, load), freeSharedSlots(LIMITS, load)], [8, 0])
})

test('nothing is sent without a free slot', () => {
  const load = inFlight({ occupied: counts(['acme', 40], ['other', 24]) })
  assert.equal(maySend(LIMITS, load, proven('third')), false)
})

test('even one slot is enough to send', () => {
  const limits = { slots: 1, slotsPerOrigin: 1 }
  assert.deepEqual([freeSharedSlots(limits, inFlight()), maySend(limits, inFlight(), unproven())], [1, true])
})

test('few deliveries wait for a receiver that is not proven, and none for one that fails', () => {
  const wait = (to: Receiver, waiting: number) =>
    mayWait(LIMITS, inFlight({ waitingByReceiver: new Map([[to, { size: waiting }]]) }), to)
  assert.deepEqual([wait(unproven(), 1), wait(unproven(), 2)], [true, false])
  assert.deepEqual([wait(proven(), 15), wait(proven(), 16)], [true, false])
  assert.equal(wait(failing(), 0), false)
})

test('deliveries of one account wait up to a quarter of the slots, and all of them up to half', () => {
  const wait = (own: number, others: number) =>
    mayWait(LIMITS, inFlight({ waiting: counts(['acme', own], ['other', others]) }), proven())
  assert.deepEqual([wait(15, 0), wait(16, 0), wait(0, 31), wait(0, 32)], [true, false, true, false])
})

test('no more is claimed while an eighth of the slots has deliveries that wait', () => {
  const free = (waiting: number) => freeSharedSlots(LIMITS, inFlight({ waiting: counts(['acme', waiting]) }))
  assert.deepEqual([free(7), free(8)], [56, 0])
})

test('a receiver that fails gets only as many deferred deliveries as it has capacity for', () => {
  const claim = (to: Receiver) => deferredToClaim(LIMITS, inFlight({ toReceiver: counts([to, 1]) }), to)
  assert.deepEqual([claim(failing()), claim(unproven())], [1, 16])
})
