/** Points as they come, and who is told. */

export interface PointFeed {
  /** The points of the last minutes, oldest first, each as JSON text. */
  readonly kept: readonly string[]
  /** Returns what ends it; null where too many listen already, or the server is stopping. */
  listen(listener: PointListener): (() => void) | null
}

export interface PointListener {
  /** Given each point as a server-sent event: the same bytes for all. */
  send(event: Buffer): void
  /** The server is stopping. */
  end(): void
}
