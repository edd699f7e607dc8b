/**
 * Records, outside the server, what callers were promised: the accepted jobs, and the final state that a read of each returned.
 */
import assert from 'node:assert/strict'
import { type Caller, idsOf, isFinal, type Reply } from './caller.ts'
import type { Random } from './random.ts'

interface Entry {
  readonly content: string
  final: string | null
}

export class Ledger {
  readonly #jobs = new Map<string, Entry>()
  readonly #ids: string[] = []
  readonly #expect: (content: string) => unknown

  constructor(expect: (content: string) => unknown) {
    this.#expect = expect
  }

  get size(): number {
    return this.#ids.length
  }

  contents(): string[] {
    return [...this.#jobs.values()].map(({ content }) => content)
  }

  accepted(contents: readonly string[], reply: Reply): void {
    assert.ok(reply.status === 200 || reply.status === 202, `${reply.status}: ${reply.text}`)
    const ids = idsOf(reply)
    assert.equal(ids.length, contents.length)
    for (const [index, id] of ids.entries()) {
      assert.ok(!this.#jobs.has(id), `the id ${id} was given twice`)
      this.#jobs.set(id, { content: contents[index] ?? '', final: null })
      this.#ids.push(id)
      // If a single create has waited for the answer, its response contains the same data as a read.
      if (isFinal(reply)) this.#look(id, reply)
    }
  }

  /** The job must exist. If it had finished before, it must be unchanged. */
  async readAny(caller: Caller, random: Random): Promise<void> {
    const id = this.#ids[random.below(this.size)]
    if (id !== undefined) this.#look(id, await caller.read(id))
  }

  async readAll(caller: Caller): Promise<void> {
    const left = this.#ids.values()
    const readOn = async () => {
      for (const id of left) this.#look(id, await caller.ended(id))
    }
    await Promise.all(Array.from({ length: 8 }, readOn))
  }

  #look(id: string, reply: Reply): void {
    const entry = this.#jobs.get(id)
    assert.ok(entry)
    assert.equal(reply.status, 200, `the job ${id} is lost: ${reply.text}`)
    if (entry.final !== null) assert.equal(reply.text, entry.final, 'a final state has changed')
    if (!isFinal(reply)) return
    const { status, result } = reply.body.data ?? {}
    assert.equal(status, 'completed', reply.text)
    assert.deepEqual(result?.response_content, this.#expect(entry.content))
    entry.final = reply.text
  }
}
