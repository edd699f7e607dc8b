import assert from 'node:assert/strict'
import test from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { watchThreads } from './thread-watch.ts'

const HANG_MS = 10_000

function start() {
  const clock = new FakeClock()
  const reports = [0, 1].map(() => new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)))
  const hung: string[] = []
  const end = watchThreads({ reports, hangMs: HANG_MS, clock, onHang: ({ message }) => hung.push(message) })
  const pass = (seconds: number, reporting: readonly number[]) => {
    for (let second = 0; second < seconds; second++) {
      for (const thread of reporting) Atomics.add(reports[thread] ?? new Int32Array(1), 0, 1)
      clock.advance(1000)
    }
  }
  return { hung, end, pass }
}

test('a thread that has not reported for the time is named, once, while the others report', () => {
  const { hung, pass } = start()
  pass(30, [0, 1])
  assert.deepEqual(hung, [])
  pass(30, [0])
  assert.deepEqual(hung, ['request thread 1 has not reported for 10 s (jobs.hang_seconds)'])
})

test('a thread that is busy for less than the time is left alone, and nothing is watched after the end', () => {
  const { hung, end, pass } = start()
  pass(8, [0])
  pass(2, [0, 1])
  pass(8, [1])
  end()
  pass(30, [])
  assert.deepEqual(hung, [])
})
