/** Counts the tokens of a conversation in a thread, to keep the event loop free. The thread starts with the first count. */
import { Worker } from 'node:worker_threads'
import { framingTokens } from '../job/input-size.ts'
import type { Message } from '../job/job.ts'
import { moduleURL } from '../module-url.ts'
import type { CountReply, CountRequest } from './token-thread.ts'

export class TokenCounter {
  #thread: Worker | null = null
  #nextId = 1
  readonly #pending = new Map<number, { resolve: (tokens: number) => void; reject: (error: Error) => void }>()

  /**
   * The conversation's tokens, as an OpenAI tokenizer counts them (o200k). Counting stops at `enough`.
   * Rejects only when the thread fails.
   */
  count(messages: readonly Message[], enough: number): Promise<number> {
    const id = this.#nextId++
    const thread = this.#started()
    const framing = framingTokens(messages)
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve: (tokens) => resolve(tokens + framing), reject })
      const texts = messages.map(({ content }) => content)
      thread.postMessage({ id, texts, enough } satisfies CountRequest)
    })
  }

  async close(): Promise<void> {
    await this.#thread?.terminate()
  }

  #started(): Worker {
    if (this.#thread) return this.#thread
    const thread = new Worker(moduleURL('./token-thread.ts', import.meta.url))
    // The thread alone does not keep the process alive.
    thread.unref()
    thread.on('message', ({ id, tokens }: CountReply) => {
      this.#pending.get(id)?.resolve(tokens)
      this.#pending.delete(id)
    })
    thread.on('error', (error) => {
      for (const { reject } of this.#pending.values()) reject(error as Error)
      this.#pending.clear()
      this.#thread = null
    })
    this.#thread = thread
    return thread
  }
}
