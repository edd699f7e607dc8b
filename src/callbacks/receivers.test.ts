/** How many callbacks may be under way to whom. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Receiver, Receivers } from './receivers.ts'

const URL_A = 'https://a.example.com/hook'
const MOST = 8

/** Enters as often as there is room; returns how often that was. */
function fill(destinations: Receivers, destination: Receiver): number {
  let entered = 0
  for (; destinations.hasRoom(destination); entered++) destinations.enter(destination)
  return entered
}

function leaveAll(destinations: Receivers, destination: Receiver, keptUp: boolean | null): void {
  while (destination.underWay > 0) destinations.leave(destination, keptUp)
}

test('a receiver is asked little until it has answered, then ever more, up to the limit', () => {
  const destinations = new Receivers(MOST)
  const destination = destinations.of('acme', URL_A)
  const rooms: number[] = []
  for (let round = 0; round < 5; round++) {
    rooms.push(fill(destinations, destination))
    leaveAll(destinations, destination, true)
  }
  assert.deepEqual(rooms, [2, 4, 8, 8, 8])
})

test('a receiver that does not keep up is asked half as much for each time, and never less than at first', () => {
  const destinations = new Receivers(MOST)
  const destination = destinations.of('acme', URL_A)
  for (let round = 0; round < 3; round++) {
    fill(destinations, destination)
    leaveAll(destinations, destination, true)
  }
  const rooms: number[] = []
  for (let round = 0; round < 4; round++) {
    rooms.push(fill(destinations, destination))
    destinations.leave(destination, false)
    leaveAll(destinations, destination, null)
  }
  assert.deepEqual(rooms, [8, 4, 2, 2])
})

test('accounts that share an origin share its limit, and not what is known of it', () => {
  const destinations = new Receivers(3)
  const [theirs, ours] = [destinations.of('other', URL_A), destinations.of('acme', URL_A)]
  for (let failed = 0; failed < 2; failed++) {
    destinations.enter(theirs)
    destinations.leave(theirs, false)
  }
  assert.deepEqual([theirs.isFailing, ours.isFailing, ours.isProven], [true, false, false])
  assert.equal(fill(destinations, theirs), 2)
  assert.equal(fill(destinations, ours), 1)
  const elsewhere = destinations.of('acme', 'https://a.example.com:8443/hook')
  assert.equal(fill(destinations, elsewhere), 2)
})

test('the same account and origin are the same destination, whatever the path', () => {
  const destinations = new Receivers(MOST)
  assert.equal(destinations.of('acme', URL_A), destinations.of('acme', 'https://a.example.com/other?x'))
})

test('two failures in a row are no accident, and one answer ends them', () => {
  const destination = new Receivers(MOST).of('acme', URL_A)
  const states = [true, false, false, true].map((keptUp) => {
    destination.learn(keptUp)
    return [destination.isProven, destination.isFailing]
  })
  assert.deepEqual(states, [
    [true, false],
    [false, false],
    [false, true],
    [true, false],
  ])
})

test('destinations that are used no more are forgotten, those under way never', () => {
  const destinations = new Receivers(MOST)
  const used = destinations.of('acme', URL_A)
  destinations.enter(used)
  const idle = destinations.of('acme', 'https://b.example.com/')
  for (let other = 0; other < 10_100; other++) destinations.of('acme', `https://h${other}.example.com/`)
  assert.equal(destinations.of('acme', URL_A), used)
  assert.notEqual(destinations.of('acme', 'https://b.example.com/'), idle)
})
