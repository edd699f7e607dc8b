import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../test/fake-clock.ts'
import { LookupCache, singleFlight } from './lookup-cache.ts'

const FRESH_MS = 2000

function cacheOf(lookUp: (key: string) => Promise<string> | string, maxEntries = 10) {
  const clock = new FakeClock()
  const lookedUp: string[] = []
  const cache = new LookupCache({
    clock,
    freshMs: FRESH_MS,
    maxEntries,
    lookUp: (key) => {
      lookedUp.push(key)
      return lookUp(key)
    },
  })
  return { clock, cache, lookedUp }
}

test('a value is returned at once while it is fresh, and is looked up again after that', async () => {
  const { clock, cache, lookedUp } = cacheOf(async (key) => `${key}!`)
  assert.equal(await cache.get('a'), 'a!')
  clock.advance(FRESH_MS - 1)
  assert.equal(cache.get('a'), 'a!')
  clock.advance(1)
  assert.equal(cache.peek('a'), 'a!')
  assert.equal(await cache.get('a'), 'a!')
  assert.deepEqual(lookedUp, ['a', 'a'])
})

test('the age of a value counts from the start of its lookup', async () => {
  const found = Promise.withResolvers<string>()
  const { clock, cache, lookedUp } = cacheOf(() => found.promise)
  const value = cache.get('a')
  clock.advance(FRESH_MS)
  found.resolve('old')
  assert.equal(await value, 'old')
  void cache.get('a')
  assert.deepEqual(lookedUp, ['a', 'a'])
})

test('one lookup at a time for each key', async () => {
  const { cache, lookedUp } = cacheOf(async (key) => `${key}!`)
  assert.deepEqual(await Promise.all([cache.get('a'), cache.get('b'), cache.get('a')]), ['a!', 'b!', 'a!'])
  assert.deepEqual(lookedUp, ['a', 'b'])
})

test('a lookup that fails is not remembered', async () => {
  let fails = true
  const { cache } = cacheOf(async (key) => {
    if (fails) throw new Error('unreachable')
    return `${key}!`
  })
  await assert.rejects(Promise.all([cache.get('a'), cache.get('a')]), /unreachable/)
  fails = false
  assert.equal(await cache.get('a'), 'a!')
})

test('a value that needs no lookup takes no space', () => {
  const { cache } = cacheOf((key) => `${key}!`)
  assert.equal(cache.get('a'), 'a!')
  assert.equal(cache.peek('a'), undefined)
})

test('the entry that was looked up longest ago makes space for a new one', async () => {
  const { clock, cache } = cacheOf(async (key) => `${key}!`, 2)
  await cache.get('a')
  await cache.get('b')
  clock.advance(FRESH_MS)
  await cache.get('b')
  assert.equal(cache.peek('a'), 'a!', 'an entry that is looked up again takes the space that it has')
  await cache.get('a')
  await cache.get('c')
  assert.deepEqual([cache.peek('a'), cache.peek('b'), cache.peek('c')], ['a!', undefined, 'c!'])
})

test('calls during a lookup share its result, and the next one looks up again', async () => {
  let lookUps = 0
  const lookUp = singleFlight(async () => ++lookUps)
  assert.deepEqual(await Promise.all([lookUp(), lookUp()]), [1, 1])
  assert.equal(await lookUp(), 2)
})

test('a failure of a shared lookup reaches every call, and the next one looks up again', async () => {
  let lookUps = 0
  const lookUp = singleFlight(async () => {
    lookUps += 1
    if (lookUps === 1) throw new Error('unreachable')
    return lookUps
  })
  await Promise.all([lookUp(), lookUp()].map((call) => assert.rejects(call, /unreachable/)))
  assert.equal(await lookUp(), 2)
})
