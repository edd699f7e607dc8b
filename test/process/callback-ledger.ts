/**
 * Records, outside the server, which callbacks were promised to callers, and what receivers got. The expected content of a
 * callback follows from its job.
 */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { Webhook } from 'standardwebhooks'
import type { ReceivedRequest } from '../receiver.ts'
import { eventually } from '../support/eventually.ts'
import { type Caller, idsOf, type Reply } from './caller.ts'
import type { Answered } from './faulty-receiver.ts'

export class CallbackLedger {
  requests = 0
  readonly #t: TestContext
  readonly #accepted = new Map<string, string>()
  /** Maps job IDs to bodies, because a repeated callback must have the same body. */
  readonly #bodies = new Map<string, string>()
  readonly #answered = new Set<string>()
  readonly #missing = new Set<string>()
  /** Maps job IDs to the requests for their callbacks. `whole` says whether a request got a complete 2xx response. */
  readonly #requests = new Map<string, { readonly request: ReceivedRequest; readonly whole: boolean }[]>()
  readonly #unread = new Set<ReceivedRequest>()
  #webhook: Webhook | undefined
  #batches = 0
  #wrong: unknown

  /** The secret must be known before the first callback can arrive. */
  verifyBy(secret: string): void {
    this.#webhook ??= new Webhook(secret)
  }

  get size(): number {
    return this.#accepted.size
  }

  get missing(): number {
    return this.#missing.size
  }

  accepted(contents: readonly string[], reply: Reply): void {
    assert.equal(reply.status, 202, reply.text)
    const ids = idsOf(reply)
    assert.equal(ids.length, contents.length)
    for (const [index, id] of ids.entries()) {
      this.#accepted.set(id, contents[index] ?? '')
      if (!this.#answered.has(id)) this.#missing.add(id)
    }
    this.#batches += 1
  }

  /** The server cannot have read the response to this request, so it must send the callback again. */
  unread(request: ReceivedRequest): void {
    this.#unread.add(request)
  }

  /** Counts requests for a callback that had already got a complete 2xx response that the server may have read. */
  get duplicates(): number {
    let count = 0
    for (const requests of this.#requests.values()) {
      const read = requests.findIndex(({ request, whole }) => whole && !this.#unread.has(request))
      if (read >= 0) count += requests.length - 1 - read
    }
    return count
  }

  get unreadAnswers(): number {
    const all = [...this.#requests.values()].flat()
    return all.filter(({ request, whole }) => whole && this.#unread.has(request)).length
  }

  /** The response that promises this callback may arrive later than the callback. */
  came(request: ReceivedRequest, answered: Answered): void {
    this.requests += 1
    try {
      const id = this.#verified(request)
      const requests = this.#requests.get(id) ?? []
      this.#requests.set(id, requests)
      requests.push({ request, whole: answered === 'whole' })
      if (answered !== 'no') {
        this.#answered.add(id)
        this.#missing.delete(id)
      }
    } catch (error) {
      this.#wrong ??= error
    }
  }

  /** Resolves when this many more batches have been accepted. Rejects if a callback was wrong. */
  moreBatches(count: number): Promise<void> {
    const until = this.#batches + count
    return this.#when(() => this.#batches >= until)
  }

  /** Resolves when at most this many callbacks are missing. Rejects if a callback was wrong. */
  missingAtMost(count: number): Promise<void> {
    return this.#when(() => this.missing <= count)
  }

  constructor(t: TestContext) {
    this.#t = t
    t.signal.addEventListener('abort', () => {
      if (this.missing === 0) return
      t.diagnostic(`${this.missing} of ${this.size} are missing, such as ${[...this.#missing].slice(0, 5)}`)
    })
  }

  async assertAsRead(caller: Caller): Promise<void> {
    const left = this.#accepted.entries()
    const readOn = async () => {
      for (const [id, content] of left) {
        const { data } = (await caller.ended(id)).body
        const { callback_payload: payload, ...said } = JSON.parse(this.#bodies.get(id) ?? '')
        assert.deepEqual(said, data)
        assert.deepEqual(payload, payloadOf(content))
      }
    }
    await Promise.all(Array.from({ length: 8 }, readOn))
  }

  /** Returns the job ID in a request. Throws if the request is not correct. */
  #verified({ headers, body }: ReceivedRequest): string {
    assert.ok(this.#webhook)
    this.#webhook.verify(body, headers as Record<string, string>)
    const { status, job_id: id, result, callback_payload: payload } = JSON.parse(body)
    assert.equal(headers['webhook-id'], id)
    assert.equal(status, 'completed', body)
    assert.equal(result.response_content, `echo: ${payload.content}`)
    assert.ok(body.endsWith(`,"callback_payload":${JSON.stringify(payloadOf(payload.content))}}`), body)
    assert.equal(this.#bodies.get(id) ?? body, body, 'a callback that is sent again says the same')
    this.#bodies.set(id, body)
    return id
  }

  async #when(holds: () => boolean): Promise<void> {
    const look = () => {
      if (this.#wrong !== undefined) throw this.#wrong
      return holds()
    }
    await eventually(look, Boolean, { signal: this.#t.signal })
  }
}

export function callbackTo(url: string): (content: string) => object {
  return (content) => ({
    callback: { callback_url: `${url}/hook`, callback_payload: payloadOf(content) },
  })
}

function payloadOf(content: string): object {
  return { content, größe: 9_007_199_254_740_991, list: [1.5, null, true, {}] }
}
