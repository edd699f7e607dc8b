import assert from 'node:assert/strict'
import { test } from 'node:test'
import { framingTokens, tokensAtMost } from '../job/input-size.ts'
import type { Message } from '../job/job.ts'
import { TokenCounter } from './token-counter.ts'
import { countTexts } from './token-thread.ts'

const NO_LIMIT = Number.POSITIVE_INFINITY

test('counts like an OpenAI tokenizer, with what the chat format adds', async (t) => {
  const counter = new TokenCounter()
  t.after(() => counter.close())
  const messages: Message[] = [
    { role: 'system', content: 'You are terse.' },
    { role: 'user', content: 'Hello world' },
  ]
  const [both, again] = await Promise.all([
    counter.count(messages, NO_LIMIT),
    counter.count(messages, NO_LIMIT),
  ])
  assert.equal(both, countTexts(['You are terse.', 'Hello world'], NO_LIMIT) + framingTokens(messages))
  assert.equal(countTexts(['Hello world'], NO_LIMIT), 2)
  assert.equal(again, both)
})

test('the number of bytes is an upper bound of the tokens, whatever the text', () => {
  for (const content of [
    '',
    'a',
    'ü'.repeat(50),
    '😀'.repeat(50),
    '\u0000\u0001',
    'x'.repeat(3000),
    '中文'.repeat(99),
  ]) {
    const messages: Message[] = [{ role: 'user', content }]
    const counted = countTexts([content], NO_LIMIT) + framingTokens(messages)
    assert.ok(counted <= tokensAtMost(messages), `${counted} for ${content.slice(0, 10)}`)
  }
})

test('text that looks like a special token is counted as text', () => {
  assert.ok(countTexts(['<|endoftext|>'], NO_LIMIT) > 1)
})

test('counting stops at the limit', () => {
  const long = 'word '.repeat(10_000)
  const enough = countTexts([long], 100)
  assert.ok(enough >= 100 && enough < 500, `${enough}`)
})

test('a cut never separates a surrogate pair', () => {
  const text = `${'a'.repeat(1023)}😀${'b'.repeat(10)}`
  const whole = countTexts(['a'.repeat(1023)], NO_LIMIT) + countTexts([`😀${'b'.repeat(10)}`], NO_LIMIT)
  assert.ok(countTexts([text], NO_LIMIT) <= whole + 1)
})
