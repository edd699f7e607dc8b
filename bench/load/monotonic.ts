/** Reads the machine's monotonic clock in milliseconds. All processes of the machine share this clock. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
