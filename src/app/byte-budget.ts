/** Makes the byte budget from the settings and the heap limit of the process. */
import { getHeapStatistics } from 'node:v8'
import type { Settings } from '../config/settings.ts'
import { ByteBudget, callbackBytes } from '../sharing/byte-budget.ts'

export function createByteBudget({ limits, callbacks }: Settings): ByteBudget {
  // Half: the rest is for memory that is not counted, and for garbage that V8 has not collected yet. Counted memory is partly
  // outside the heap, but a buffer of a text and the text itself are never far apart in size.
  const totalBytes = limits.memory_bytes ?? Math.floor(getHeapStatistics().heap_size_limit / 2)
  return new ByteBudget(totalBytes, callbackBytes(callbacks.in_flight_bytes))
}
