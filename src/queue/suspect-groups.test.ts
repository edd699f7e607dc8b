/** Tests that few crashes find a job that crashes its node (a poison job), and that the other suspects lose little time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_SUSPECTS, SuspectGroups } from './suspect-groups.ts'

const MAX_ATTEMPTS = 3

interface Suspect {
  readonly id: number
  crashes: number
  wasAlone: boolean
}

/**
 * Runs suspects until none is queued, like a store and its nodes. A group with the poison job ends in a crash.
 * @param poison the ID of the poison job; null if there is none
 * @param together how many running jobs end before more are claimed
 */
function run(jobs: number, poison: number | null, together = Number.POSITIVE_INFINITY) {
  let queued: Suspect[] = Array.from({ length: jobs }, (_, id) => ({ id, crashes: 1, wasAlone: jobs === 1 }))
  let running: Suspect[] = []
  let crashes = 1
  let rounds = 0
  const failed: number[] = []
  let groups = new SuspectGroups()
  while (queued.length > 0 && rounds < 10_000) {
    rounds += 1
    if (groups.mustLook) {
      const mostCrashes = Math.max(...queued.map((one) => one.crashes))
      const withMost = queued.filter((one) => one.crashes === mostCrashes).length
      groups.found({ queued: queued.length, mostCrashes, withMost })
    }
    for (let group = groups.next(); group !== null; group = groups.next()) {
      const { crashCount, limit } = group
      const found = queued
        .filter((one) => one.crashes === crashCount && !running.includes(one))
        .slice(0, limit)
      groups.claimed(crashCount, limit, found.length)
      running.push(...found)
    }
    const ending = running.filter((one) => one.crashes >= MAX_ATTEMPTS && one.wasAlone)
    failed.push(...ending.map(({ id }) => id))
    const called = running.filter((one) => !ending.includes(one))
    queued = queued.filter((one) => !ending.includes(one))
    if (called.some(({ id }) => id === poison)) {
      crashes += 1
      for (const one of called) {
        one.crashes += 1
        one.wasAlone = called.length === 1
      }
      groups = new SuspectGroups()
      running = []
      continue
    }
    const ended = running.splice(0, together)
    queued = queued.filter((one) => !ended.includes(one))
    for (const _ of ended) groups.ended(true)
  }
  return { crashes, rounds, failed }
}

for (const poison of [0, 1, 2, 60, 127, 128, 200, 255]) {
  test(`one poison job among 256, at place ${poison}, is found in at most eight crashes`, () => {
    const { crashes, failed, rounds } = run(256, poison)
    assert.deepEqual(failed, [poison])
    assert.ok(crashes <= 8, `${crashes} crashes`)
    assert.ok(rounds <= 40, `${rounds} rounds`)
  })
}

test('it is found in as few crashes if the jobs of a group end one after the other', () => {
  for (const poison of [2, 60, 127, 200, 253, 255]) {
    const { crashes, failed } = run(256, poison, 1)
    assert.deepEqual(failed, [poison])
    assert.ok(crashes <= 8, `at place ${poison}: ${crashes} crashes`)
  }
})

test('a poison job that always ran alone fails after exactly as many crashes as it may have', () => {
  assert.deepEqual(run(1, 0), { crashes: MAX_ATTEMPTS, rounds: MAX_ATTEMPTS, failed: [0] })
})

test('256 suspects of which none kills anything need ten rounds', () => {
  assert.deepEqual(run(256, null), { crashes: 1, rounds: 10, failed: [] })
})

test('with 10,000 suspects a group is up to a quarter of them', () => {
  const { rounds, crashes } = run(10_000, null)
  assert.equal(crashes, 1)
  assert.ok(rounds <= 16, `${rounds} rounds`)
})

test('with each suspect that ends, one more may run', () => {
  const groups = new SuspectGroups()
  groups.found({ queued: 9, mostCrashes: 1, withMost: 9 })
  groups.claimed(1, 1, 1)
  assert.equal(groups.next(), null)
  groups.ended(true)
  assert.deepEqual(groups.next(), { crashCount: 1, limit: 2 })
  groups.claimed(1, 2, 2)
  groups.ended(true)
  // The group grows although one of its two suspects still runs.
  assert.deepEqual(groups.next(), { crashCount: 1, limit: 2 })
})

test('those with fewer crashes run when those with more have ended', () => {
  const groups = new SuspectGroups()
  groups.found({ queued: 3, mostCrashes: 2, withMost: 2 })
  groups.claimed(2, 1, 1)
  groups.ended(true)
  groups.claimed(2, 2, 1)
  assert.deepEqual([groups.next(), groups.mustLook], [null, false])
  groups.ended(true)
  assert.equal(groups.mustLook, true)
  groups.found({ queued: 1, mostCrashes: 1, withMost: 1 })
  assert.deepEqual(groups.next(), { crashCount: 1, limit: 1 })
})

test('suspects with fewer crashes run if those with the most cannot be claimed', () => {
  const groups = new SuspectGroups()
  groups.found({ queued: 3, mostCrashes: 3, withMost: 1 })
  groups.claimed(3, 1, 0)
  assert.deepEqual(groups.next(), { crashCount: 2, limit: 1 })
  groups.claimed(2, 1, 0)
  assert.deepEqual(groups.next(), { crashCount: 1, limit: 1 })
  groups.claimed(1, 1, 0)
  assert.equal(groups.next(), null)
})

test('after one was released, nothing is claimed until the store is asked again', () => {
  const groups = new SuspectGroups()
  groups.found({ queued: 1, mostCrashes: 1, withMost: 1 })
  groups.claimed(1, 1, 1)
  groups.found(NO_SUSPECTS)
  groups.ended(false)
  assert.deepEqual([groups.mustLook, groups.queued, groups.next()], [false, 1, null])
  groups.found({ queued: 1, mostCrashes: 1, withMost: 1 })
  assert.notEqual(groups.next(), null)
  groups.found(NO_SUSPECTS)
  assert.equal(groups.next(), null)
})
