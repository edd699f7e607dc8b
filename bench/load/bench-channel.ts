/**
 * Lets a benchmark script read its settings and exchange messages with the benchmark. The script exits when the benchmark has
 * ended.
 */

/** The settings come from the benchmark itself, so their type is not checked. */
export function settingsFromBench<T extends object>(): T {
  return JSON.parse(process.argv[2] ?? '{}') as T
}

export function sendToBench<T extends { readonly kind: string }>(message: T): void {
  process.send?.(message)
}

export function onBenchMessage<T extends { readonly kind: string }>(callback: (message: T) => void): void {
  process.on('message', (message) => callback(message as T))
  process.on('disconnect', () => process.exit())
}
