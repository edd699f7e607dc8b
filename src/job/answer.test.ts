import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AnswerVerdict, answerOf, judgeAnswer, repairRequest } from './answer.ts'

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
    '{"n":12345678901234567890}',
    ' \n{"n":12345678901234567890}\t\uFEFF',
    '```json\n{"n":12345678901234567890}\n```',
    '\n```\n\n {"n":12345678901234567890}```  ',
    '``` \r\n{"n":12345678901234567890}\r\n```',
  ]) {
    assert.equal(contentOf(text), '{"n":12345678901234567890}', text)
  }
  const broken = ['```json\n```', '```json {"n":1}```', '```json\n{"n":1}', 'json\n1```']
  for (const text of ['', '```', '``````', ...broken]) assert.equal(contentOf(text), null, text)
})

test('thoughts before JSON, and prose around the only fenced block, are removed', () => {
  for (const text of [
    '<think>A list? {"n": 2}</think>{"n":1}',
    '\n<think>\n```json\n{"n":2}\n```\n</think>\n\n```json\n{"n":1}\n```',
    'Reasoning without its beginning.\n</think>\n{"n":1}',
    'Reasoning.\n```\n{"n":2}\n```\n</think>\n\nHere:\n```json\n{"n":1}\n```\nDone.',
    'Here is the JSON:\n\n```json\n{"n":1}\n```',
    'Here is it:\n  ```\n  {"n":1}\n  ```\n\nIt has `one` member.',
    '```json\n{"n":1}\n```\nI hope that helps!',
    'So:\n```json\n{"n":1}```\nAnything else?',
    '<think></think>\nThe answer:\n```JSON\r\n{"n":1}\r\n```\r\n',
  ]) {
    assert.equal(contentOf(text), '{"n":1}', text)
  }
  const quoting = '{"n":"</think> ```json\\n{}\\n``` <think>"}'
  for (const text of [quoting, `<think>so</think>${quoting}`, `Well:\n\`\`\`\n${quoting}\n\`\`\``]) {
    assert.equal(contentOf(text), quoting, text)
  }
  for (const text of [
    '<think>{"n":1}',
    'The answer is {"n":1}.',
    'Either\n```json\n{"n":1}\n```\nor\n```json\n{"n":2}\n```',
    'In line: ```json\n{"n":1}\n```',
  ]) {
    assert.equal(contentOf(text), null, text)
  }
})

test('the error is that of the JSON that was found, not that of the prose around it', () => {
  const [error] = errorsOf('Here you are:\n```json\n{"n":1,}\n```\nGood luck!')
  assert.match(error ?? '', /^the answer is not JSON: .*double-quoted property name/i)
})

test('a number that is infinite once it is parsed is wrong, wherever it is', () => {
  const schema = '{"format":"json","schema":{}}'
  for (const [text, place] of [
    ['1e400', '(answer)'],
    ['-1E+309', '(answer)'],
    [`{"a":[0,{"b":${'9'.repeat(310)}}]}`, 'a[1].b'],
    ['{"__proto__":[1e999]}', '__proto__[0]'],
  ] as const) {
    assert.deepEqual(errorsOf(text), [`${place}: must be a number of at most 1.8e308`])
    assert.equal(judge(text, schema).kind, 'wrong')
  }
  for (const text of ['1.7976931348623157e308', '1e-400', '["1e400"]', '{"1e400":1}']) {
    assert.equal(contentOf(text), text)
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
    (size) => `<think>${'</think'.repeat(size / 7)}`,
    (size) => `${'</think>'.repeat(size / 8)}x`,
    (size) => `x\n${'```json\n'.repeat(size / 8)}`,
    (size) => `x\n\`\`\`json\n${'`'.repeat(size)}`,
    (size) => `x${' ```'.repeat(size / 4)}`,
    (size) => `[${'1,'.repeat(size / 2)}1e400]`,
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
  assert.equal(judgeAnswer(text, format, { maxDepth: 64, steps: 100 }).kind, 'not checked')
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

test('an empty answer is not sent back as an empty message, which servers reject', () => {
  const asked = '[{"role":"user","content":"a"}]'
  const contentsOf = (raw: string): string[] =>
    JSON.parse(repairRequest(asked, JSON_FORMAT, raw, ['it is empty'])).map(
      ({ content }: { content: string }) => content,
    )
  for (const raw of ['', ' \n']) assert.equal(contentsOf(raw)[1], '(no answer)')
  assert.equal(contentsOf(' {')[1], ' {')
})
