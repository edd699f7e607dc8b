/** The status 499, as in nginx: metrics, logs and traces report it for a client that disconnected before the response ended. */
export const CLIENT_GONE = 499
