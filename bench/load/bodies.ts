/** Makes request bodies of a chosen size, each with its correlation ID. */
import { CORRELATION_ID_PLACEHOLDER } from './request.ts'

const WORDS = 'The quick brown fox jumps over the lazy dog while the band plays on. '
export const MODEL = 'gpt-5-mini'

/** The bare proxy gets the same bytes as Parley. */
export function jobBody(bytes: number): string {
  return filled(bytes, jobOf)
}

export function chatBody(bytes: number): string {
  return filled(bytes, chatOf)
}

export function jobOf(text: string): string {
  return JSON.stringify({ ...conversationOf(text), response_format: { format: 'text' } })
}

export function chatOf(text: string): string {
  return JSON.stringify(conversationOf(text))
}

function conversationOf(text: string): object {
  return {
    model: MODEL,
    messages: [
      { role: 'system', content: 'You are a helpful assistant.' },
      { role: 'user', content: `${CORRELATION_ID_PLACEHOLDER} ${text}` },
    ],
  }
}

export function batchBody(jobs: number, bytesEach: number): string {
  return `[${Array.from({ length: jobs }, () => jobBody(bytesEach)).join(',')}]`
}

function filled(bytes: number, make: (text: string) => string): string {
  return make(words(bytes - make('').length))
}

export function words(count: number): string {
  const length = Math.max(0, count)
  return WORDS.repeat(Math.ceil(length / WORDS.length)).slice(0, length)
}
