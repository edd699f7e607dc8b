/**
 * Detects that a model server has dropped a part of a conversation. A server whose context is too small may drop text without
 * an error (a context shift) and answer the rest. The only sign is that it reports far fewer tokens than the text has. An
 * answer is suspicious if the server reports less than one token for each BYTES_PER_TOKEN bytes; English has four or five bytes
 * per token. Only then does the CPU pool count the text, at most once a second for each target.
 */
import type { Clock } from '../clock.ts'
import type { CpuPool } from '../cpu-pool/cpu-pool.ts'
import type { ClaimedJob } from '../job/job.ts'
import { Stop } from '../job/stop.ts'
import { countConversation } from '../tokens/token-counter.ts'

export const BYTES_PER_TOKEN = 12
/**
 * If the count exceeds the server's by more than this factor, Parley assumes that the server has dropped text. The counts of
 * different tokenizers usually differ by less, even in languages that they support badly.
 */
const FAR_ABOVE = 2
export const COUNT_EVERY_MS = 1_000

export interface ContextShift {
  readonly jobId: string
  readonly target: string
  readonly promptTokens: number
  /** The conversation has at least this many tokens, according to an OpenAI tokenizer. */
  readonly counted: number
}

export interface ContextShiftsOptions {
  readonly pool: Pick<CpuPool, 'run'>
  readonly clock: Clock
  readonly weightOf: (tier: string) => number
  readonly onShift: (shift: ContextShift) => void
  readonly onError: (error: unknown) => void
}

type AnsweredJob = Pick<ClaimedJob, 'id' | 'account' | 'tier'>

export class ContextShifts {
  readonly #options: ContextShiftsOptions
  readonly #countedAtMs = new Map<string, number>()
  /** A target has at most one count in progress, because each count keeps its text in memory. */
  readonly #counting = new Set<string>()
  readonly #never = new Stop()

  constructor(options: ContextShiftsOptions) {
    this.#options = options
  }

  /**
   * Counts the text of a suspicious answer, unless a text of the same target is being counted or was counted within the last
   * second. Resolves when the count has ended; never rejects.
   * @param target as `upstream/model`; null if no target was called
   * @param promptTokens the server's count; 0 if the server did not report one
   */
  async check(
    job: AnsweredJob,
    messagesJson: string,
    target: string | null,
    promptTokens: number,
  ): Promise<void> {
    if (target === null || promptTokens === 0) return
    const { clock, onError } = this.#options
    const nowMs = clock.steadyMs()
    const lastMs = this.#countedAtMs.get(target)
    if (this.#counting.has(target) || (lastMs !== undefined && nowMs - lastMs < COUNT_EVERY_MS)) return
    this.#countedAtMs.set(target, nowMs)
    this.#counting.add(target)
    try {
      await this.#count(job, messagesJson, target, promptTokens)
    } catch (error) {
      onError(error)
    } finally {
      this.#counting.delete(target)
    }
  }

  async #count(
    { id: jobId, account, tier }: AnsweredJob,
    messagesJson: string,
    target: string,
    promptTokens: number,
  ): Promise<void> {
    const { pool, weightOf, onShift } = this.#options
    const user = { account, weight: weightOf(tier) }
    const conversation = { messagesJson, messages: 1, tokensAtMost: Buffer.byteLength(messagesJson) }
    const limit = FAR_ABOVE * promptTokens
    const count = await countConversation(conversation, limit, (jsonTexts, enough) =>
      pool.run('count tokens', { jsonTexts, enough }, user, this.#never),
    )
    if (count !== null && count.tokens > limit) {
      onShift({ jobId, target, promptTokens, counted: count.tokens })
    }
  }
}
