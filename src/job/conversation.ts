/** The conversation as JSON text, made once though several places need it: the store, the fingerprint, the call. */
import type { Message } from './job.ts'

const texts = new WeakMap<readonly Message[], string>()

/** The same text for the same array, always. */
export function conversationJson(messages: readonly Message[]): string {
  let text = texts.get(messages)
  if (text === undefined) {
    text = JSON.stringify(messages)
    texts.set(messages, text)
  }
  return text
}
