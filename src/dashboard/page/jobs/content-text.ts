/** Formats `response_content`: text unchanged, JSON indented. */
export function contentText(content: unknown): string {
  return typeof content === 'string' ? content : JSON.stringify(content, null, 2)
}
