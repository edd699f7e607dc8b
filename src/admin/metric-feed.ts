/** Points as they come, and who is told. */

export interface MetricFeed {
  /** The points of the last minutes, oldest first, each as JSON text. */
  readonly kept: readonly string[]
  /** Returns what ends it; null where too many listen already, or the server is stopping. */
  listen(listener: MetricListener): (() => void) | null
}

export interface MetricListener {
  /** Given each point as a server-sent event: the same bytes for all. */
  send(event: Buffer): void
  /** The server is stopping. */
  end(): void
}
