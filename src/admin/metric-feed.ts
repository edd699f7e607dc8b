/** The stream of metric samples that dashboards subscribe to. */

export interface MetricFeed {
  /** The samples of the last minutes, oldest first, each as JSON text. */
  readonly kept: readonly string[]
  /** Returns a function that unsubscribes; null if there are too many listeners, or the server is stopping. */
  listen(listener: MetricListener): (() => void) | null
}

export interface MetricListener {
  /** Receives each sample as a server-sent event. All listeners share the same bytes. */
  send(event: Buffer): void
  /** The server is stopping. */
  end(): void
}
