/** How long something has been waiting, in seconds; zero if nothing is waiting. */
export function ageSeconds(sinceMs: number | null, nowMs: number): number {
  return sinceMs === null ? 0 : Math.max(0, nowMs - sinceMs) / 1000
}
