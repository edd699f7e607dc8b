/** `response_content` for reading: a text as it is, JSON laid out. */
export function contentText(content: unknown): string {
  return typeof content === 'string' ? content : JSON.stringify(content, null, 2)
}
