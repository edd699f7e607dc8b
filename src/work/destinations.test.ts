/** How many callbacks may be under way to whom. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Destination, Destinations } from './destinations.ts'

const URL_A = 'https://a.example.com/hook'
const MOST = 8

/** Enters as often as there is room; returns how often that was. */
function fill(destinations: Destinations, destination: Destination): number {
  let entered = 0
  for (; destinations.hasRoom(destination); entered++) destinations.enter(destination)
  return entered
}

function leaveAll(destinations: Destinations, destination: Destination, keptUp: boolean | null): void {
  while (destination.underWay > 0) destinations.leave(destination, keptUp, 50)
}

test('a receiver is asked little until it has answered, then ever more, up to the limit', () => {
  const destinations = new Destinations(MOST)
  const destination = destinations.of('acme', URL_A)
  const rooms: number[] = []
  for (let round = 0; round < 5; round++) {
    rooms.push(fill(destinations, destination))
    leaveAll(destinations, destination, true)
  }
  assert.deepEqual(rooms, [2, 4, 8, 8, 8])
})

test('a receiver that does not keep up is asked half as much for each time, and never less than at first', () => {
  const destinations = new Destinations(MOST)
  const destination = destinations.of('acme', URL_A)
  for (let round = 0; round < 3; round++) {
    fill(destinations, destination)
    leaveAll(destinations, destination, true)
  }
  const rooms: number[] = []
  for (let round = 0; round < 4; round++) {
    rooms.push(fill(destinations, destination))
    destinations.leave(destination, false, 15_000)
    leaveAll(destinations, destination, null)
  }
  assert.deepEqual(rooms, [8, 4, 2, 2])
})

test('accounts that share an origin share its limit, and not what is known of it', () => {
  const destinations = new Destinations(3)
  const [theirs, ours] = [destinations.of('other', URL_A), destinations.of('acme', URL_A)]
  destinations.enter(theirs)
  destinations.leave(theirs, false, 15_000)
  assert.deepEqual([theirs.isFailing, ours.isFailing, ours.isProven], [true, false, false])
  assert.equal(fill(destinations, theirs), 2)
  assert.equal(fill(destinations, ours), 1)
  const elsewhere = destinations.of('acme', 'https://a.example.com:8443/hook')
  assert.equal(fill(destinations, elsewhere), 2)
})

test('the same account and origin are the same destination, whatever the path', () => {
  const destinations = new Destinations(MOST)
  assert.equal(destinations.of('acme', URL_A), destinations.of('acme', 'https://a.example.com/other?x'))
})

test('those that find no place come back one after the other, as fast as the receiver takes them', () => {
  const destination = new Destinations(MOST).of('acme', URL_A)
  for (let attempt = 0; attempt < 100; attempt++) destination.learn(true, 80)
  const turns = [1, 2, 3, 4].map(() => destination.turnMs(0))
  const [first = 0] = turns
  assert.ok(first >= 80 && first <= 120, `${first}`)
  assert.deepEqual(
    turns.map((turn) => Math.round((turn - first) / 10)),
    [0, 1, 2, 3],
  )
})

test('nobody waits for longer than a minute for a receiver that answers, or than ten for one that does not', () => {
  const destination = new Destinations(MOST).of('acme', URL_A)
  const longest = () => Math.max(...Array.from({ length: 10_000 }, () => destination.turnMs(0)))
  assert.equal(longest(), 60_000)
  destination.learn(false, 15_000)
  assert.equal(longest(), 600_000)
  destination.learn(true, 20)
  assert.ok(destination.turnMs(0) <= 60_000)
})

test('destinations that are used no more are forgotten, those under way never', () => {
  const destinations = new Destinations(MOST)
  const used = destinations.of('acme', URL_A)
  destinations.enter(used)
  const idle = destinations.of('acme', 'https://b.example.com/')
  for (let other = 0; other < 10_100; other++) destinations.of('acme', `https://h${other}.example.com/`)
  assert.equal(destinations.of('acme', URL_A), used)
  assert.notEqual(destinations.of('acme', 'https://b.example.com/'), idle)
})
