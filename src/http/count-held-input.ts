/** Counts the input tokens of an assigned job, because its call counts as usage when the caller cancels it. */
import type { FastifyRequest } from 'fastify'
import type { Store } from '../store/store.ts'
import { countConversation } from '../tokens/token-counter.ts'
import { HttpError } from './errors.ts'
import type { RequestCpu } from './load-shedding/request-cpu.ts'

/** Longer conversations were counted when the job was created, unless their tier's limit is higher than this. */
const COUNTED_BYTES = 1024 * 1024
/** The longest time that a cancel waits for the threads. */
const COUNT_MS = 5_000

export type CountHeldInput = (request: FastifyRequest, jobId: string) => Promise<number | null>

/**
 * The tokens of the messages and of the chat format. Null if no node holds the job, or if it could not be counted soon: a
 * cancel must not fail because the threads are busy.
 */
export function heldInputCounter(store: Pick<Store, 'heldMessages'>, cpu: RequestCpu): CountHeldInput {
  return async (request, jobId) => {
    const messagesJson = await store.heldMessages(request.caller.account, jobId, COUNTED_BYTES)
    if (messagesJson === null) return null
    const conversation = { messagesJson, messages: 1, tokensAtMost: Buffer.byteLength(messagesJson) }
    try {
      const count = await cpu.use(request, COUNT_MS, (run) =>
        countConversation(conversation, Number.MAX_SAFE_INTEGER, (jsonTexts, enough) =>
          run('count tokens', { jsonTexts, enough }),
        ),
      )
      return count.tokens
    } catch (error) {
      if (error instanceof HttpError) return null
      throw error
    }
  }
}
