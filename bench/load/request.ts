/** A prepared HTTP request into which each mark is written in its position: the cheapest way to send unique contents. */
import { MARK_BYTES } from './mark.ts'

export interface RequestShape {
  readonly host: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** JSON with `MARK_PLACE` wherever a mark of its own is to stand. */
  readonly body: string
}

/** Stands for a mark in a body. */
export const MARK_PLACE = '#'.repeat(MARK_BYTES)

/** One per connection: sending it again before it was written out would overwrite what is on its way. */
export class PreparedRequest {
  readonly bytes: Buffer
  readonly #positions: readonly number[]

  constructor({ host, path, headers, body }: RequestShape) {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\n${lines.join('')}content-length: ${Buffer.byteLength(body)}\r\n\r\n`
    this.bytes = Buffer.from(head + body)
    this.#positions = positionsIn(this.bytes)
  }

  /** Writes a new mark into every position; returns the last one. */
  mark(next: () => string): string {
    let mark = ''
    for (const position of this.#positions) {
      mark = next()
      this.bytes.write(mark, position, 'latin1')
    }
    return mark
  }
}

function positionsIn(bytes: Buffer): number[] {
  const positions: number[] = []
  for (let at = bytes.indexOf(MARK_PLACE); at >= 0; at = bytes.indexOf(MARK_PLACE, at + 1)) positions.push(at)
  return positions
}
