import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { maskFor, readCompletion, readFailure, UPSTREAM_WORDS } from './read-completion.ts'

const KEY = 'k/ey+with="odd\\signs'
const mask = maskFor(KEY)

function read(value: unknown) {
  return readCompletion(200, JSON.stringify(value), mask)
}

function choice(message: unknown, finish = 'stop') {
  return { choices: [{ message, finish_reason: finish }], usage: { prompt_tokens: 3, completion_tokens: 9 } }
}

describe('a chat completion', () => {
  it('cut off by the length limit delivers what came, and says so', () => {
    assert.deepEqual(read(choice({ content: 'Once upon' }, 'length')), {
      kind: 'answer',
      text: 'Once upon',
      tokens: { input: 3, output: 9 },
      truncated: true,
    })
  })

  it('cut off before its first word is trouble that cost tokens', () => {
    const got = read(choice({ content: '' }, 'length'))
    assert.equal(got.kind, 'trouble')
    assert.equal(got.kind === 'trouble' && got.retryable, false)
    assert.deepEqual(got.tokens, { input: 3, output: 9 })
  })

  it('with an empty text is an answer', () => {
    assert.equal(read(choice({ content: '' })).kind, 'answer')
  })

  it('without usage, or with nonsense in it, counts no tokens', () => {
    for (const usage of [undefined, null, 7, [], { prompt_tokens: -1, completion_tokens: '9' }]) {
      const got = read({ choices: [{ message: { content: 'a' } }], usage })
      assert.deepEqual(got.tokens, { input: 0, output: 0 })
    }
  })

  it('is nothing that merely looks like one', () => {
    const impostors = [
      null,
      7,
      'text',
      [],
      {},
      { choices: null },
      { choices: [] },
      { choices: [null] },
      { choices: [[]] },
      { choices: {} },
      { choices: [{}] },
      { choices: [{ message: 'hello' }] },
      choice({ content: null }),
      choice({ content: ['a'] }),
      choice({}),
    ]
    for (const impostor of impostors) {
      const got = read(impostor)
      assert.equal(got.kind, 'trouble', JSON.stringify(impostor))
      assert.equal(got.kind === 'trouble' && got.retryable, false)
    }
  })

  it('that carries an error instead is that error, as gateways send it', () => {
    const busy = read({ error: { code: 502, message: 'Provider is down' } })
    assert.equal(busy.kind === 'trouble' && busy.retryable, true)
    assert.equal(busy.kind === 'trouble' && busy.message, 'Provider is down')
    const cutOff = read({
      choices: [
        { message: { content: 'half' }, finish_reason: 'error', error: { code: 429, message: 'Slow' } },
      ],
    })
    assert.equal(cutOff.kind === 'trouble' && cutOff.retryable, true)
    const other = read({ error: { code: 'bad_thing', message: 'No' } })
    assert.equal(other.kind === 'trouble' && other.retryable, false)
    assert.equal(read({ error: { code: 'content_filter', message: 'No' } }).kind, 'refused')
  })
})

describe('the words of a failure', () => {
  const wordsOf = (body: string | null, status = 500) => {
    const got = readFailure(status, body, null, mask)
    return got.kind === 'answer' ? '' : got.message
  }

  it('are found where servers put them', () => {
    assert.equal(wordsOf('{"error":{"message":"A"}}'), 'A')
    assert.equal(wordsOf('[{"error":{"message":"B"}}]'), 'B')
    assert.equal(wordsOf('{"error":"C"}'), 'C')
    assert.equal(wordsOf('{"message":"D"}'), 'D')
    assert.equal(wordsOf('{"detail":"E"}'), 'E')
    assert.equal(wordsOf('upstream connect error'), 'upstream connect error')
  })

  it('are ours where the server has none to the point', () => {
    for (const body of ['', null, '<html>…</html>', '{}', '[]', 'null', '{"error":{"message":" "}}']) {
      assert.equal(wordsOf(body), 'The model server answered 500.')
    }
  })

  it('are cut, never through a character', () => {
    for (const start of ['', 'a']) {
      const long = wordsOf(JSON.stringify({ message: start + '\u{1F600}'.repeat(400) }))
      assert.ok(long.length <= UPSTREAM_WORDS && long.length > UPSTREAM_WORDS - 3)
      assert.ok(long.isWellFormed())
      assert.ok(long.endsWith('…'))
    }
  })

  it('are one line without control characters', () => {
    assert.equal(wordsOf(JSON.stringify({ message: 'a\r\n b\u0000\tc' })), 'a b c')
  })

  it('never hold the key, however it is written, nor an Authorization header', () => {
    for (const spelling of [KEY, encodeURIComponent(KEY), JSON.stringify(KEY)]) {
      const shown = wordsOf(JSON.stringify({ message: `for key ${spelling} nothing` }))
      assert.ok(!shown.includes('with'), shown)
    }
    assert.equal(
      wordsOf('{"message":"got Authorization: Bearer abc.def-1, sorry"}'),
      'got Authorization: Bearer ***, sorry',
    )
    assert.equal(wordsOf('{"message":"got x-api-key: abc.def"}'), 'got x-api-key: ***')
    assert.equal(wordsOf('{"message":"wrong: sk-proj-ab***yz."}'), 'wrong: ***')
  })

  it('are masked before they are cut', () => {
    const shown = wordsOf(JSON.stringify({ message: 'x'.repeat(UPSTREAM_WORDS - 8) + KEY }))
    assert.ok(!shown.includes('k/ey'), shown)
  })

  it('coded as a breach of policy are a refusal, in whichever field the code is', () => {
    assert.equal(
      readFailure(400, '{"error":{"type":"content_policy_violation"}}', null, mask).kind,
      'refused',
    )
    assert.equal(readFailure(403, '{"code":"content_filter","message":"x"}', null, mask).kind, 'refused')
  })
})
