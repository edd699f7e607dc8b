import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AnswerVerdict, answerOf, judgeAnswer } from './answer.ts'

const LIMITS = { maxDepth: 64, steps: 300_000 }
const JSON_FORMAT = '{"format":"json"}'

const judge = (text: string, formatJson = JSON_FORMAT): AnswerVerdict => judgeAnswer(text, formatJson, LIMITS)

function contentOf(text: string): string | null {
  const answer = answerOf(text, judge(text))
  return answer.ok ? answer.contentJson : null
}

function errorsOf(text: string): readonly string[] {
  const verdict = judge(text)
  return verdict.kind === 'wrong' ? verdict.errors : []
}

test('JSON is taken out of white space and a fence, as the model wrote it', () => {
  for (const text of [
    '{"n":1e400}',
    ' \n{"n":1e400}\t\uFEFF',
    '```json\n{"n":1e400}\n```',
    '\n```\n\n {"n":1e400}```  ',
    '``` \r\n{"n":1e400}\r\n```',
  ]) {
    assert.equal(contentOf(text), '{"n":1e400}', text)
  }
  for (const text of [
    '',
    '```',
    '``````',
    '```json\n```',
    '```json {"n":1}```',
    '```json\n{"n":1}',
    'json\n1```',
  ]) {
    assert.equal(contentOf(text), null, text)
  }
})

test('an answer nested deeper than the limit is wrong, and the error says so', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  assert.equal(contentOf(nested(64)), nested(64))
  for (const text of [nested(65), '['.repeat(8_000_000), `{"a":${nested(64)}}`]) {
    assert.deepEqual(errorsOf(text), ['the answer is nested more than 64 levels deep'])
  }
})

test('an answer of any form is read in linear time', () => {
  const forms: ((size: number) => string)[] = [
    (size) => `\`\`\`${'\n'.repeat(size)}x`,
    (size) => `\`\`\`json\n${'\n```'.repeat(size / 4)}x`,
    (size) => `\`\`\`${'a'.repeat(size)}`,
    (size) => `${' '.repeat(size)}x`,
    (size) => `x${' '.repeat(size)}x`,
  ]
  const cpuMs = (text: string) => {
    const before = process.threadCpuUsage()
    judge(text)
    return process.threadCpuUsage(before).user / 1000
  }
  for (const form of forms) {
    const small = Math.max(2, Math.min(cpuMs(form(100_000)), cpuMs(form(100_000))))
    const large = Math.min(cpuMs(form(800_000)), cpuMs(form(800_000)))
    assert.ok(large < 32 * small, `${large} ms for eight times what takes ${small} ms`)
  }
})

test('a text answer is a JSON string', () => {
  assert.deepEqual(judge('a "b"', '{"format":"text"}'), { kind: 'text', contentJson: '"a \\"b\\""' })
})

test('a check that needs more steps than it may take says so', () => {
  const format = '{"format":"json","schema":{"type":"array","items":{"type":"integer"}}}'
  const text = JSON.stringify(Array(500).fill(1))
  assert.equal(judgeAnswer(text, format, { maxDepth: 64, steps: 100 }).kind, 'out of steps')
  assert.equal(judgeAnswer(text, format, { maxDepth: 64, steps: 1000 }).kind, 'json')
})

test('a schema is found in either order of the members', () => {
  for (const format of [
    '{"format":"json","schema":{"const":"\\"format\\":\\"json\\""}}',
    '{"schema":{"const":"\\"format\\":\\"json\\""},"format":"json"}',
  ]) {
    assert.equal(judge('"\\"format\\":\\"json\\""', format).kind, 'json')
    assert.equal(judge('1', format).kind, 'wrong')
  }
})
