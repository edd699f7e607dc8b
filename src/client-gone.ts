/** Metrics, logs and traces use this status, as nginx does, for a client that disconnected before the end of the response. */
export const CLIENT_GONE = 499
