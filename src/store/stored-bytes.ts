/**
 * How many bytes of text a job stores, for quotas: its conversation, response format and callback, and later its answer or
 * error with the receipt. Compressed texts count with their size before compression.
 */

/** Neither database reads a text to compute its `octet_length`. */
export const messagesBytesOf = (row: string) =>
  `coalesce(${row}.messages_bytes, octet_length(${row}.messages))`

export const resultBytesOf = (row: string) =>
  `coalesce(${row}.content_bytes, octet_length(${row}.content), octet_length(${row}.error), 0)`

export const requestBytesOf = (row: string) =>
  `(${messagesBytesOf(row)} + octet_length(${row}.response_format) + coalesce(octet_length(${row}.callback), 0))`

/** The result is 0 if a left join found no row. */
export const outcomeBytesOf = (row: string) =>
  `(${resultBytesOf(row)} + coalesce(octet_length(${row}.receipt), 0))`

export function requestBytes(messages: string, responseFormat: string, callback: string | null): number {
  return bytesOf(messages) + bytesOf(responseFormat) + bytesOf(callback)
}

export function outcomeBytes(content: string | null, error: string | null, receipt: string): number {
  return bytesOf(content) + bytesOf(error) + bytesOf(receipt)
}

function bytesOf(text: string | null): number {
  return text === null ? 0 : Buffer.byteLength(text)
}
