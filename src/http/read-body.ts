/** Reads the body of a request into one buffer, however many pieces it arrives in. */
import type { IncomingMessage } from 'node:http'
import { invalid, notJson, tooLarge } from './errors.ts'

/** What a body of unknown length may have before `grow` is asked. */
export const FIRST_BYTES = 8192

export interface BodyRules {
  /** As the client announced it; null if it did not. */
  readonly length: number | null
  readonly limit: number
  /** Asked once whether a body of unknown length may grow to the limit; resolves with the error if it may not. */
  readonly grow: () => Promise<Error | null>
}

export type OnBody = (error: Error | null, body?: Buffer) => void

/** Calls `done` once. */
export function readBody(raw: IncomingMessage, rules: BodyRules, done: OnBody): void {
  const { length, limit } = rules
  if (length !== null && length > limit) done(tooLarge(limit))
  // The client hung up while the request waited, and nothing more is emitted.
  else if (raw.destroyed) done(notJson('The body did not arrive in full.'))
  else collect(raw, rules, done)
}

function collect(raw: IncomingMessage, { length, limit, grow }: BodyRules, done: OnBody): void {
  let buffer = Buffer.allocUnsafe(length ?? Math.min(FIRST_BYTES, limit))
  let received = 0
  let hasEnded = false

  const end = (error: Error | null): void => {
    if (hasEnded) return
    hasEnded = true
    raw.off('data', onData).off('end', onEnd).off('error', end)
    if (error) done(error)
    else done(null, buffer.subarray(0, received))
  }
  const onData = (piece: Buffer): void => {
    const total = received + piece.length
    if (total > (length ?? limit)) end(tooLarge(limit))
    else if (total > buffer.length) void enlarge(piece)
    else {
      // A copy, so that a body in many small pieces takes no more memory than one in a few large ones.
      piece.copy(buffer, received)
      received = total
    }
  }
  const enlarge = async (piece: Buffer): Promise<void> => {
    raw.pause()
    const error = await grow()
    if (error) end(error)
    if (hasEnded) return
    // The pages that the body does not reach are never in memory.
    const larger = Buffer.allocUnsafe(limit)
    buffer.copy(larger, 0, 0, received)
    buffer = larger
    onData(piece)
    raw.resume()
  }
  const onEnd = (): void => {
    const isWhole = length === null || received === length
    end(isWhole ? null : invalid('Content-Length: does not match the body'))
  }
  raw.on('data', onData).on('end', onEnd).on('error', end)
}
