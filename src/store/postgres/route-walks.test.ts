import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RouteWalks, type WalkEnd } from './route-walks.ts'

const ROUTE = 'r'
const FRONT = { turn: 0, id: '00000000-0000-0000-0000-000000000000' }
const AT_END = { stopped: false, isPinned: false }
const endAt = (turn: number, over: Partial<WalkEnd> = {}): WalkEnd => ({
  ...AT_END,
  ...over,
  place: { turn, id: 'b' },
})

/**
 * Returns `RouteWalks` after a walk from the front at 0 ms, and a walk to turn 5000. The next walk from the front is due at
 * 1,000 ms.
 */
function walked(): RouteWalks {
  const walks = new RouteWalks()
  walks.end(begin(walks, 0), { ...AT_END, place: FRONT }, 0)
  walks.end(begin(walks, 1), endAt(5000), 1)
  return walks
}

const begin = (walks: RouteWalks, ms: number) => walks.begin(ROUTE, false, ms)

test('a walk begins where the previous one ended', () => {
  const walks = walked()
  assert.deepEqual(begin(walks, 2).from, { turn: 5000, id: 'b' })
  assert.deepEqual(walks.begin('other', false, 2).from, FRONT)
})

test('a job that joined before that is not passed over, also when it joined during the walk', () => {
  const walks = walked()
  walks.joined(ROUTE, 3000)
  walks.joined('other', 10)
  const walk = begin(walks, 2)
  assert.equal(walk.from.turn, 3000)
  walks.joined(ROUTE, 2000)
  walks.joined(ROUTE, 4000)
  walks.end(walk, endAt(6000), 2)
  assert.equal(begin(walks, 3).from.turn, 2000)
})

test('a job whose route is not known may be of any route', () => {
  const walks = walked()
  walks.joined(null, 400)
  assert.equal(begin(walks, 2).from.turn, 400)
})

test('a walk that failed or keeps the place moves nothing', () => {
  const walks = walked()
  walks.end(begin(walks, 2), null, 2)
  walks.end(walks.begin(ROUTE, true, 2000), null, 2000)
  assert.equal(begin(walks, 3).from.turn, 5000)
})

test('every second the whole route is walked, in as many walks as it takes', () => {
  const walks = walked()
  walks.end(begin(walks, 1000), endAt(2000, { stopped: true }), 1000)
  assert.equal(begin(walks, 1001).from.turn, 2000)
  walks.end(begin(walks, 1001), endAt(7000, { stopped: true }), 1001)
  assert.equal(begin(walks, 2000).from.turn, 7000)
  assert.deepEqual(begin(walks, 2001).from, FRONT)
})

test('a walk of the whole route that finds nothing goes on where the previous ones had come to', () => {
  const walks = walked()
  walks.end(begin(walks, 1000), { ...AT_END, place: FRONT }, 1000)
  assert.equal(begin(walks, 1001).from.turn, 5000)
})

test('the whole route is walked less often if that takes long', () => {
  const walks = walked()
  walks.end(begin(walks, 1000), endAt(5000), 1100)
  assert.equal(begin(walks, 3099).from.turn, 5000)
  assert.deepEqual(begin(walks, 3100).from, FRONT)
})

test('a job that is queued gets no lesser turn than any node has claimed', () => {
  const walks = walked()
  walks.claimed(ROUTE, 4000)
  walks.claimed(ROUTE, 9000)
  assert.deepEqual(walks.turns(), { r: 5000 })
  walks.reached({ r: 7000, s: 1 })
  walks.reached({ r: 6000 })
  walks.setFloor(3)
  assert.deepEqual(JSON.parse(walks.turnsJson()), { floor: 3, routes: { r: 7000, s: 1 } })
})
