import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tokensAtMost } from '../job/create-body.ts'
import type { Message } from '../job/job.ts'
import { countTokens } from './count-tokens.ts'
import { countConversation, type TokenCount } from './token-counter.ts'

const NO_LIMIT = Number.POSITIVE_INFINITY

const inJson = (text: string) => JSON.stringify(text).slice(1, -1)
async function tokensOf(text: string, enough = NO_LIMIT): Promise<number> {
  return (await countTokens({ jsonTexts: [inJson(text)], enough })).tokens
}

/** Counts without a thread, and records the slices. */
async function counted(messages: readonly Message[], limit: number) {
  const slices: string[][] = []
  const conversation = {
    messagesJson: JSON.stringify(messages),
    messages: messages.length,
    tokensAtMost: tokensAtMost(messages),
  }
  const count = await countConversation(conversation, limit, (jsonTexts, enough) => {
    slices.push([...jsonTexts])
    return countTokens({ jsonTexts, enough })
  })
  return { count, slices }
}

const user = (content: string): Message => ({ role: 'user', content })
const exact = (tokens: number): TokenCount => ({ tokens, certainty: 'exact' })

test('a conversation has the tokens of its texts and of the chat format', async () => {
  const messages: Message[] = [{ role: 'system', content: 'You are terse.' }, user('Hello world')]
  assert.equal(await tokensOf('Hello world'), 2)
  const texts = (await tokensOf('You are terse.')) + 2
  assert.deepEqual((await counted(messages, NO_LIMIT)).count, exact(texts + 2 * 3 + 3))
})

test('the upper bound in bytes holds for every text', async () => {
  const repeated = ['ü'.repeat(50), '😀'.repeat(50), 'x'.repeat(3000), '中文'.repeat(99)]
  for (const content of ['', 'a', '\u0000\u0001', ...repeated]) {
    const { count } = await counted([user(content)], NO_LIMIT)
    assert.ok(count && count.tokens <= tokensAtMost([user(content)]), content.slice(0, 10))
  }
})

test('text that looks like a special token is text', async () => {
  assert.ok((await tokensOf('<|endoftext|>')) > 1)
})

test('counting ends soon after enough', async () => {
  const enough = await tokensOf('word '.repeat(10_000), 100)
  assert.ok(enough >= 100 && enough < 500, `${enough}`)
})

test('a surrogate pair is never taken apart', async () => {
  const whole = (await tokensOf('a'.repeat(1023))) + (await tokensOf(`😀${'b'.repeat(10)}`))
  assert.ok((await tokensOf(`${'a'.repeat(1023)}😀${'b'.repeat(10)}`)) <= whole + 1)
})

test('counting stops just beyond the limit', async () => {
  const text = 'word '.repeat(4_000)
  const { count } = await counted([user(text)], 3_000)
  assert.equal(count?.certainty, 'at least')
  assert.ok(count.tokens > 3_000 && count.tokens < 3_000 + 1024, `${count.tokens}`)
  assert.deepEqual((await counted([user(text)], 5_000)).count?.certainty, 'exact')
})

test('a long conversation is counted in slices of bounded size', async () => {
  const messages = [
    ...Array(5_000).fill(user('Hi')),
    user('word '.repeat(10_000)),
    user('\n"\\'.repeat(20_000)),
  ]
  const { count, slices } = await counted(messages, NO_LIMIT)
  const longest = slices.map((texts) => texts.reduce((sum, text) => sum + text.length, 0))
  assert.ok(Math.max(...longest) <= 16 * 1024 + 6, `${Math.max(...longest)}`)
  assert.ok(Math.max(...slices.map((texts) => texts.length)) <= 1024)
  assert.equal(slices.flat().join(''), messages.map(({ content }) => inJson(content)).join(''))
  assert.equal(count?.certainty, 'exact')
})

test('text of many more bytes than the limit has tokens is sampled first, and rejected by the sample', async () => {
  const { count, slices } = await counted([user('word '.repeat(100_000))], 1_000)
  assert.equal(slices.length, 1)
  assert.ok(slices.flat().join('').length <= 32 * (512 + 6))
  assert.equal(count?.certainty, 'about')
  assert.ok(count.tokens > 80_000 && count.tokens < 130_000, `${count.tokens}`)
})

test('text that takes few tokens is counted, however many bytes it has', async () => {
  const text = `${' '.repeat(127)}\n`.repeat(1_000)
  const { count, slices } = await counted([user(text)], 5_000)
  assert.ok(slices.length > 2)
  assert.equal(count?.certainty, 'exact')
})

test('counting ends when it is stopped', async () => {
  let slices = 0
  const messages = {
    messagesJson: JSON.stringify([user('a'.repeat(100_000))]),
    messages: 1,
    tokensAtMost: 100_006,
  }
  const count = await countConversation(messages, 100_000, () =>
    Promise.resolve(++slices === 3 ? null : { tokens: 1, isComplete: true }),
  )
  assert.deepEqual([count, slices], [null, 3])
})
