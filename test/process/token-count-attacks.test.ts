/**
 * Tests that texts that take long to count do not delay other accounts, and that nothing is counted for clients that have
 * disconnected.
 */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { BATCHES, job, MESSAGES, MIB, randomText, startWatched } from './watched-server.ts'

/** These 57 KB have more bytes, but fewer tokens, than the lowest tier allows. So Parley counts and accepts them. */
const PROSE = 'The quick brown fox jumps over the lazy dog. '.repeat(1_300)

const saying = (content: string) => JSON.stringify(job({ messages: [{ role: 'user', content }] }))

const TEXTS = 30
/** On a busy machine, the other request may not get a CPU core for a while, so the test tries this often. */
const ATTEMPTS = 4

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now()
  await work()
  return performance.now() - startedMs
}

/** The first two tests share a server. */
const { post, key } = await startWatched({ after })
const other = await key('other', 'user_free')
const create = (index: number) => post(MESSAGES, saying(`${index} ${PROSE}`), other)
// Afterwards, every thread has started and loaded the tokenizer, which takes longer than counting.
await Promise.all(Array.from({ length: 16 }, (_, index) => create(100 + index)))

test(`${TEXTS} expensive texts of one account do not delay the 57 KB of another`, async (t) => {
  const attacker = await key('attacker', 'user_free')
  // Durations mean little on a busy machine, so the test compares the order of the responses.
  let least = 1
  for (let attempt = 0; attempt < ATTEMPTS && least >= 0.5; attempt++) {
    let unanswered = TEXTS
    const answered = Array.from({ length: TEXTS }, async (_, text) => {
      const { status } = await post(MESSAGES, saying(randomText(70_000, text)), attacker)
      unanswered -= 1
      return status
    })
    // When this request has its response, those of the attacker are all in progress.
    await post(MESSAGES, saying(`x ${attempt}`), other)
    const before = unanswered
    assert.equal((await create(attempt)).status, 200)
    const passed = before - unanswered
    t.diagnostic(`${passed} of ${before} texts passed another account's`)
    if (before >= TEXTS / 2) least = Math.min(least, passed / before)
    assert.deepEqual([...new Set(await Promise.all(answered))], [403])
  }
  assert.ok(least < 0.5, `${least} of the texts`)
})

test('nothing is counted for clients that have gone', async (t) => {
  const attacker = await key('leaving', 'user_max')
  const aloneMs = await timed(() => create(1001))
  const countMs = await timed(() => post(MESSAGES, saying(randomText(300_000, 99)), attacker))
  const gone = new AbortController()
  const left = Array.from({ length: 20 }, (_, text) =>
    assert.rejects(post(MESSAGES, saying(randomText(1.9 * MIB, text)), attacker, gone.signal)),
  )
  // When this request has its response, most of the requests that were sent before it have usually arrived.
  await post(MESSAGES, saying('x'), other)
  gone.abort()
  await Promise.all(left)
  const delayedMs = await timed(() => create(1002))
  t.diagnostic(
    `alone ${aloneMs.toFixed(0)} ms, delayed ${delayedMs.toFixed(0)} ms, one count ${countMs.toFixed(0)} ms`,
  )
  assert.ok(delayedMs < 3 * aloneMs + countMs, `${delayedMs} ms`)
})

test('requests beyond what the threads take are rejected with 503, and other accounts are not', async (t) => {
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
