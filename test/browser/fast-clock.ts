/** Runs a clock a whole number of times faster than the machine's, to fit a quarter of an hour into a minute. */
import { type Clock, systemClock } from '../../src/clock.ts'

export function fastClock(times: number): Clock {
  const beganMs = systemClock.nowMs()
  const steadyBeganMs = systemClock.steadyMs()
  const passedMs = () => (systemClock.steadyMs() - steadyBeganMs) * times
  return {
    nowMs: () => Math.round(beganMs + passedMs()),
    steadyMs: () => steadyBeganMs + passedMs(),
    after: (ms, callback) => systemClock.after(ms / times, callback),
  }
}
