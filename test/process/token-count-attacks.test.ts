/** Texts that are expensive to count delay nobody else, and nothing is counted for clients that are gone. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { BATCHES, job, MESSAGES, MIB, randomText, startWatched } from './watched-server.ts'

const timeout = 240_000
/** 57 KB are more bytes than the lowest tier allows tokens, and fewer tokens: they are counted and accepted. */
const PROSE = 'The quick brown fox jumps over the lazy dog. '.repeat(1_300)

const saying = (content: string) => JSON.stringify(job({ messages: [{ role: 'user', content }] }))

/** A single delay says little on a busy machine, where one of a second may be the scheduler's. */
const ATTEMPTS = 4

/** The least of several delays, each as a part of what is allowed for it. A delay by the attack comes back each time. */
async function leastDelay(
  t: TestContext,
  attempt: () => Promise<{ readonly delayedMs: number; readonly allowedMs: number }>,
): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let attempts = 0; attempts < ATTEMPTS && least >= 1; attempts++) {
    const { delayedMs, allowedMs } = await attempt()
    t.diagnostic(`delayed ${delayedMs.toFixed(0)} ms, ${allowedMs.toFixed(0)} ms allowed`)
    least = Math.min(least, delayedMs / allowedMs)
  }
  return least
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now()
  await work()
  return performance.now() - startedMs
}

test('30 expensive texts of one account do not delay the 57 KB of another', { timeout }, async (t) => {
  const { post, key } = await startWatched(t)
  const [attacker, other] = [await key('attacker', 'user_free'), await key('other', 'user_free')]
  const create = async (index: number) => {
    const answer = await post(MESSAGES, saying(`${index} ${PROSE}`), other)
    assert.equal(answer.status, 200)
  }
  // Every thread has started and loaded the tokenizer.
  await Promise.all(Array.from({ length: 16 }, (_, index) => create(100 + index)))
  let created = 0
  const delay = await leastDelay(t, async () => {
    const aloneMs = await timed(() => create(created++))
    const answered: Promise<number>[] = []
    const attackMs = timed(async () => {
      for (let text = 0; text < 30; text++) {
        const body = saying(randomText(70_000, text))
        answered.push(post(MESSAGES, body, attacker).then(({ status }) => status))
      }
      await Promise.all(answered)
    })
    // They are all on their way before the other's.
    await post(MESSAGES, saying(`x ${created}`), other)
    const delayedMs = await timed(() => create(created++))
    const allMs = await attackMs
    assert.deepEqual([...new Set(await Promise.all(answered))], [403])
    return { delayedMs, allowedMs: Math.max(allMs / 2, 3 * aloneMs) }
  })
  assert.ok(delay < 1, `${delay} of what is allowed`)
})

test('nothing is counted for clients that have gone', { timeout }, async (t) => {
  const { post, key } = await startWatched(t)
  const [attacker, other] = [await key('attacker', 'user_max'), await key('other', 'user_free')]
  const create = (index: number) => post(MESSAGES, saying(`${index} ${PROSE}`), other)
  // As above: a thread that loads the tokenizer takes longer than a count.
  await Promise.all(Array.from({ length: 16 }, (_, index) => create(100 + index)))
  let created = 0
  const delay = await leastDelay(t, async () => {
    const aloneMs = await timed(() => create(created++))
    const countMs = await timed(() => post(MESSAGES, saying(randomText(300_000, 99)), attacker))
    const gone = new AbortController()
    const left = Array.from({ length: 20 }, (_, text) =>
      assert.rejects(post(MESSAGES, saying(randomText(1.9 * MIB, text)), attacker, gone.signal)),
    )
    // Behind them on the way to the server.
    await post(MESSAGES, saying(`x ${created}`), other)
    gone.abort()
    await Promise.all(left)
    const delayedMs = await timed(() => create(created++))
    return { delayedMs, allowedMs: 3 * aloneMs + countMs }
  })
  assert.ok(delay < 1, `${delay} of what is allowed`)
})

test('requests beyond what the threads take are rejected with 503, and other accounts are not', {
  timeout,
}, async (t) => {
  const { post, key } = await startWatched(t, { settings: { cpu: { max_requests: 4, threads: 1 } } })
  const [attacker, other] = [await key('attacker', 'user_max'), await key('other', 'user_max')]
  const texts = Array.from({ length: 6 }, (_, text) => saying(randomText(300_000, text)))
  const answers = Promise.all(texts.map((body) => post(MESSAGES, body, attacker)))
  const answer = await post(BATCHES, `[${saying(PROSE + PROSE)}]`, other)
  assert.equal(answer.status, 202)
  const rejected = (await answers).filter(({ status }) => status === 503)
  assert.ok(rejected.length > 0)
  for (const { retryAfter, body } of rejected) {
    assert.match(retryAfter ?? '', /^[1-9]\d*$/)
    assert.match(body.details, /cpu\.max_requests/)
  }
})
