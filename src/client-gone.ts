/** The status, in metrics, logs and traces, of a request whose client disconnected before the end of the response, as in nginx. */
export const CLIENT_GONE = 499
