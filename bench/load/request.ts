/** A prepared HTTP request into which correlation IDs are written: the cheapest way to send unique content. */
import { CORRELATION_ID_BYTES } from './correlation-id.ts'

export interface RequestShape {
  readonly host: string
  /** POST if absent. */
  readonly method?: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** JSON with a `CORRELATION_ID_PLACEHOLDER` wherever a correlation ID is to be inserted. */
  readonly body: string
}

/** The placeholder for a correlation ID in a body. */
export const CORRELATION_ID_PLACEHOLDER = '#'.repeat(CORRELATION_ID_BYTES)

/** Use one per connection: sending it again before it was written out would overwrite bytes in transit. */
export class PreparedRequest {
  readonly bytes: Buffer
  readonly #places: readonly number[]

  constructor({ host, method = 'POST', path, headers, body }: RequestShape) {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    const head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n${lines.join('')}content-length: ${Buffer.byteLength(body)}\r\n\r\n`
    this.bytes = Buffer.from(head + body)
    this.#places = placesIn(this.bytes)
  }

  /** Writes a new correlation ID over every placeholder and returns the last one. */
  writeCorrelationIds(next: () => string): string {
    let correlationId = ''
    for (const place of this.#places) {
      correlationId = next()
      this.bytes.write(correlationId, place, 'latin1')
    }
    return correlationId
  }
}

function placesIn(bytes: Buffer): number[] {
  const places: number[] = []
  for (
    let at = bytes.indexOf(CORRELATION_ID_PLACEHOLDER);
    at >= 0;
    at = bytes.indexOf(CORRELATION_ID_PLACEHOLDER, at + 1)
  )
    places.push(at)
  return places
}
