/**
 * Prepares an HTTP request, and writes new correlation IDs and keys into its bytes. No other way to send unique content is as
 * cheap.
 */
import { CORRELATION_ID_BYTES } from './correlation-id.ts'
import { KEY_PLACEHOLDER, writeNewKey } from './idempotency-keys.ts'
import { PROMPT_PLACEHOLDER, type Prompts } from './prompts.ts'

export interface RequestShape {
  readonly host: string
  /** The default is POST. */
  readonly method?: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Each correlation ID is written over a `CORRELATION_ID_PLACEHOLDER` in this JSON. */
  readonly body: string
}

export const CORRELATION_ID_PLACEHOLDER = '#'.repeat(CORRELATION_ID_BYTES)

/**
 * Each connection needs its own prepared request: a second send, before the first was written out, would overwrite bytes in
 * transit.
 */
export class PreparedRequest {
  readonly bytes: Buffer
  readonly #places: readonly number[]
  readonly #keyPlaces: readonly number[]
  readonly #promptPlaces: readonly number[]

  constructor({ host, method = 'POST', path, headers, body }: RequestShape) {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    const head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n${lines.join('')}content-length: ${Buffer.byteLength(body)}\r\n\r\n`
    this.bytes = Buffer.from(head + body)
    this.#places = placesIn(this.bytes, CORRELATION_ID_PLACEHOLDER)
    this.#keyPlaces = placesIn(this.bytes.subarray(0, Buffer.byteLength(head)), KEY_PLACEHOLDER)
    this.#promptPlaces = placesIn(this.bytes, PROMPT_PLACEHOLDER)
  }

  writePrompts(prompts: Prompts): void {
    for (const place of this.#promptPlaces) prompts.write(this.bytes, place)
  }

  renew(next: () => string): string {
    for (const place of this.#keyPlaces) writeNewKey(this.bytes, place)
    let correlationId = ''
    for (const place of this.#places) {
      correlationId = next()
      this.bytes.write(correlationId, place, 'latin1')
    }
    return correlationId
  }
}

function placesIn(bytes: Buffer, placeholder: string): number[] {
  const places: number[] = []
  for (let at = bytes.indexOf(placeholder); at >= 0; at = bytes.indexOf(placeholder, at + 1)) places.push(at)
  return places
}
