/**
 * Tests that no schema and no answer blocks the event loop of a real server for long: checks of hostile ones are stopped, and
 * large answers are checked.
 */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { HOSTILE_FAMILIES } from '../support/hostile-schemas.ts'
import { LONG } from '../support/long-form.ts'
import { type Database, onBothStores } from './both-stores.ts'
import { job, MESSAGES, MIB, slowness, startWatched } from './watched-server.ts'

/** The limit is in milliseconds of CPU time, on the machine on which it was set. */
const LONGEST_HOLD_MS = 20

/** Large answers have about this size. A model's answer may have up to 16 MiB. */
const ANSWER_BYTES = 10 * MIB

function rows(make: (index: number) => unknown): unknown[] {
  const each = JSON.stringify(make(123_456)).length + 1
  return Array.from({ length: Math.ceil(ANSWER_BYTES / each) }, (_, index) => make(index))
}

const ROW = {
  type: 'object',
  properties: {
    id: { type: 'string', pattern: '^[A-Z]{2}-[0-9]+$' },
    price: { type: 'number', multipleOf: 0.01 },
    kind: { oneOf: [{ const: 'new' }, { const: 'old' }] },
    when: { type: 'string', format: 'date-time' },
  },
  required: ['id', 'price', 'kind', 'when'],
  additionalProperties: false,
}

const LARGE: [name: string, schema: object, answer: () => unknown][] = [
  [
    'a table',
    { type: 'object', properties: { rows: { type: 'array', items: ROW, uniqueItems: true } } },
    () => ({
      rows: rows((at) => ({
        id: `AB-${at}`,
        price: (at % 10_000) / 100,
        kind: 'new',
        when: '2026-01-31T12:00:00Z',
      })),
    }),
  ],
  [
    'a text',
    { type: 'object', properties: { html: { type: 'string', pattern: '^[^\\u0000]*$' } } },
    () => ({ html: 'a line of text, '.repeat(ANSWER_BYTES / 16) }),
  ],
  [
    'a file',
    { type: 'object', properties: { file: { type: 'string', format: 'uri' } } },
    () => ({ file: `data:text/plain;base64,${'YWJj'.repeat(ANSWER_BYTES / 4)}` }),
  ],
]

/** Makes the attack in the greatest of four strengths whose schema fits into a request, or else in the least. */
function hostile(make: (typeof HOSTILE_FAMILIES)[number]) {
  const within = [100, 30, 10, 1].map(make).find(({ schema }) => JSON.stringify(schema).length < 60_000)
  return within ?? make(1)
}

async function start(t: TestContext, database: Database) {
  let content = ''
  let calls = 0
  const models = await startModelServer(
    {
      keep: false,
      script: () => {
        calls++
        return reply.text(content)
      },
    },
    t,
  )
  const { post, held, key } = await startWatched(t, { upstream: models.baseUrl, ...database })
  const caller = await key('acme', 'user_max')
  /** The question must be unique, so that the answer is not from the cache. */
  const ask = async (question: string, schema: unknown, answer: string) => {
    content = answer
    calls = 0
    const messages = [{ role: 'user', content: question }]
    const asked = job({ response_format: { format: 'json', schema }, messages })
    const { status, body } = await post(MESSAGES, JSON.stringify(asked), caller)
    return { status, job: body.data, calls }
  }
  await ask('Ready?', { type: 'object' }, '{}')
  /**
   * Other processes evict the CPU caches, and a run may include a garbage collection, so the minimum of several runs counts.
   */
  const holdsNothing = async (name: string, work: (attempt: number) => Promise<unknown>): Promise<void> => {
    let heldMs = Number.POSITIVE_INFINITY
    let limitMs = LONGEST_HOLD_MS
    for (let attempt = 0; attempt < 5 && heldMs >= limitMs; attempt++) {
      heldMs = Math.min(heldMs, await held(() => work(attempt)))
      limitMs = LONGEST_HOLD_MS * slowness()
    }
    longest.push([heldMs, name])
    assert.ok(heldMs < limitMs, `${name}: ${heldMs} ms, limit ${limitMs} ms`)
  }
  const longest: [heldMs: number, name: string][] = []
  t.after(() => {
    const [heldMs = 0, name = ''] = longest.toSorted(([one], [other]) => other - one)[0] ?? []
    t.diagnostic(`the longest hold, by ${name}, took ${heldMs.toFixed(1)} ms of CPU`)
  })
  return { ask, holdsNothing }
}

type Started = Awaited<ReturnType<typeof start>>

async function completesLarge({ ask, holdsNothing }: Started, large: typeof LARGE): Promise<void> {
  for (const [name, schema, make] of large) {
    const answer = JSON.stringify(make())
    assert.ok(answer.length > 0.98 * ANSWER_BYTES)
    await holdsNothing(`${name} of 10 MB`, async (attempt) => {
      const ended = await ask(`${name} ${attempt}`, schema, answer)
      assert.deepEqual([ended.job.status, ended.job.error, ended.calls], ['completed', null, 1])
    })
  }
}

/** A schema with exponentially many branches is not the model's fault, so the model must be called, and billed, only once. */
async function checksOnce({ ask, holdsNothing }: Started): Promise<void> {
  const exponential = HOSTILE_FAMILIES.map((make) => make(30)).find(
    ({ family }) => family === 'branching $ref one step in',
  )
  await holdsNothing('an exponential schema', async (attempt) => {
    const ended = await ask(`Branches? ${attempt}`, exponential?.schema, JSON.stringify(exponential?.answer))
    assert.deepEqual([ended.job.error.code, ended.calls], ['answer_not_checked', 1])
  })
}

async function endsHostile({ ask, holdsNothing }: Started): Promise<void> {
  for (const make of HOSTILE_FAMILIES) {
    const { family, schema, answer } = hostile(make)
    await holdsNothing(family, async (attempt) => {
      const { status, job: ended, calls } = await ask(`${family} ${attempt}`, schema, JSON.stringify(answer))
      if (status === 400) return assert.equal(calls, 0)
      assert.equal(status, 200)
      const expected = { completed: 1, answer_not_checked: 1, validation_error: 2 }[
        String(ended.error?.code ?? ended.status)
      ]
      assert.equal(calls, expected, JSON.stringify(ended.error))
    })
  }
}

onBothStores(
  (store) => `large answers are checked and hostile schemas end, on ${store}`,
  async (t, database) => {
    const started = await start(t, database)
    await completesLarge(started, LONG ? LARGE : LARGE.slice(0, 1))
    await checksOnce(started)
    if (LONG) await endsHostile(started)
  },
  { real: true },
)
