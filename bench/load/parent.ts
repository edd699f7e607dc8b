/** The bench as its scripts see it: the settings they were started with, messages to it, and leaving when it is gone. */

/** Settings come from the bench itself, so their type is taken on trust. */
export function settingsFromBench<T extends object>(): T {
  return JSON.parse(process.argv[2] ?? '{}') as T
}

export function sendToBench<T extends { readonly kind: string }>(message: T): void {
  process.send?.(message)
}

export function onBench<T extends { readonly kind: string }>(callback: (message: T) => void): void {
  process.on('message', (message) => callback(message as T))
  process.on('disconnect', () => process.exit())
}
