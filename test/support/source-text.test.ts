import assert from 'node:assert/strict'
import { test } from 'node:test'
import { identifiersIn, splitSource } from './source-text.ts'

const SOURCE = [
  '/** A comment. */',
  "const first = 'a string' // a remark",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is a template in the source that is split
  'const second = `text ${inner({ deep: `more ${name} text` })} end`',
  'const third = 6 / 2',
].join('\n')

test('source is split into code and prose, with the expressions of templates as code', () => {
  const { code, prose } = splitSource(SOURCE)
  assert.deepEqual(
    identifiersIn(code).map(({ name }) => name),
    ['const', 'first', 'second', 'inner', 'deep', 'name', 'third'],
  )
  assert.deepEqual(
    prose.map(({ line, text }) => `${line} ${text}`),
    ['1 /** A comment. */', "2 'a string'", '2 // a remark', '3 text ${', '3 more ${', '3  text`', '3  end`'],
  )
})

test('identifiers are split into words, however they are written', () => {
  const words = identifiersIn('claimNextJob MAX_JOBS $queue #left').map(({ words }) => words)
  assert.deepEqual(words, ['claim next job', 'max jobs', 'queue', 'left'])
})
