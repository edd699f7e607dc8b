/** Time, injected everywhere it matters, so that tests move it by hand instead of sleeping. */
export interface Clock {
  /** Wall-clock milliseconds since 1970: for what is stored and shown. It may jump. */
  nowMs(): number
  /** Milliseconds that only ever grow: for durations, leases and deadlines. */
  steadyMs(): number
  /** Calls `act` once after `ms`; the returned function cancels that. Does not keep the process alive. */
  after(ms: number, act: () => void): () => void
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  steadyMs: () => performance.now(),
  after(ms, act) {
    const timer = setTimeout(act, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
}
