/**
 * Tests that responses to requests without newer fields are byte for byte those of version 0.3.0 (SPEC §2 to §8), as recorded
 * in recorded-responses.json on a clone of 0.3.0. Placeholders stand for IDs, times and keys. `RECORD_RESPONSES=FILE` records
 * responses to a file.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import test from 'node:test'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { BATCHES, MESSAGES, says, startScene } from './caller.ts'

const NOBODY = '01890000-0000-7000-8000-000000000000'
const SCHEMA = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
const FILE = new URL('recorded-responses.json', import.meta.url)

type Call = readonly [name: string, method: string, path: string, body?: unknown, headers?: object]

const KEY = { 'idempotency-key': 'k' }
const json = { format: 'json', schema: SCHEMA }
const callingBack = (callback_url: string) => job({ callback: { callback_url } })

/** `ID` stands for the job that the previous request created, and `LAST` for the last job of a batch. */
const CALLS: readonly Call[] = [
  ['a single create', 'POST', MESSAGES, job()],
  ['its read', 'GET', `${MESSAGES}/ID`],
  ['waiting for it', 'GET', `${MESSAGES}/ID?wait=5`],
  ['a cached answer', 'POST', MESSAGES, job()],
  ['an answer by a schema', 'POST', MESSAGES, says('json', { response_format: json })],
  ['an answer that fails its schema', 'POST', MESSAGES, says('no json', { response_format: json })],
  ['a rejected call', 'POST', MESSAGES, says('reject')],
  ['a refused answer', 'POST', MESSAGES, says('refuse')],
  ['a batch', 'POST', BATCHES, [says('one'), says('two')]],
  ['waiting for its last job', 'GET', `${MESSAGES}/LAST?wait=30`],
  ['reading it with others', 'GET', `${MESSAGES}?ids=LAST,${NOBODY}&wait=30`],
  ['a list', 'GET', `${MESSAGES}?limit=1`],
  ['a list of failed jobs', 'GET', `${MESSAGES}?status=failed&limit=2`],
  ['cancelling an ended job', 'POST', `${MESSAGES}/LAST/cancel`],
  ['deleting it', 'DELETE', `${MESSAGES}/LAST`],
  ['reading it after that', 'GET', `${MESSAGES}/LAST`],
  ['an unknown job', 'GET', `${MESSAGES}/${NOBODY}`],
  ['no job ID', 'GET', `${MESSAGES}/nothing`],
  ['a key for the first time', 'POST', MESSAGES, says('key'), KEY],
  ['the key again', 'POST', MESSAGES, says('key'), KEY],
  ['the key with another body', 'POST', MESSAGES, says('other'), KEY],
  ['no JSON', 'POST', MESSAGES, '{"model":'],
  ['another type', 'POST', MESSAGES, 'x', { 'content-type': 'text/plain' }],
  ['an array', 'POST', MESSAGES, []],
  ['an empty batch', 'POST', BATCHES, []],
  ['too long a batch', 'POST', BATCHES, Array.from({ length: 31 }, () => job())],
  ['a batch with a wrong job', 'POST', BATCHES, [job(), job({ messages: [] })]],
  ['no model', 'POST', MESSAGES, { ...says('x'), model: undefined }],
  ['an unknown model', 'POST', MESSAGES, job({ model: 'gpt-1' })],
  ['no message of a user', 'POST', MESSAGES, job({ messages: [{ role: 'system', content: 'x' }] })],
  ['an unknown role', 'POST', MESSAGES, job({ messages: [{ role: 'tool', content: 'x' }] })],
  ['an unknown format', 'POST', MESSAGES, job({ response_format: { format: 'xml' } })],
  ['a schema of text', 'POST', MESSAGES, job({ response_format: { format: 'text', schema: SCHEMA } })],
  ['a broken schema', 'POST', MESSAGES, job({ response_format: { format: 'json', schema: { type: 'no' } } })],
  ['too short a timeout', 'POST', MESSAGES, job({ timeout: 1 })],
  ['too long a cache time', 'POST', MESSAGES, job({ message_cache_ttl: 1e6 })],
  ['a callback of a single create', 'POST', MESSAGES, callingBack('http://x.test/')],
  ['a callback to a private address', 'POST', BATCHES, [callingBack('http://10.0.0.1/')]],
  ['another method', 'PUT', MESSAGES, job()],
  ['another route', 'GET', '/api/v2/messages'],
]

onEachStore(() => {
  test('responses to requests without newer fields are those of version 0.3.0', async (t) => {
    const { parley, models, caller } = await startScene(t)
    models.script = ({ body }) => {
      const text = JSON.stringify(body)
      if (text.includes('"no json"')) return reply.text('no json')
      if (text.includes('"json"')) return reply.text('{"n":1}')
      if (text.includes('"reject"')) return reply.status(400)
      if (text.includes('"refuse"')) return reply.refusal('No.')
      return undefined
    }
    let id = NOBODY
    let last = NOBODY
    const responses: Record<string, unknown> = {}
    for (const [name, method, path, body, headers] of CALLS) {
      const answer = await parley.request(path.replace('ID', id).replace('LAST', last), {
        method,
        headers: {
          'x-api-key': caller.key,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
      id = answer.body.data?.job_id ?? id
      last = answer.body.data?.job_ids?.at(-1) ?? last
      responses[name] = { status: answer.status, body: withoutValues(answer.text) }
    }
    for (const headers of [{}, { 'x-api-key': 'wrong' }]) {
      const { status, text } = await parley.request(`${MESSAGES}/${NOBODY}`, { headers })
      // Versions after 0.3.0 add a sentence that says what is wrong with the key.
      const body = text.replace(/ The (request has no API key|API key does not exist)\./, '')
      responses[`${Object.values(headers)[0] ?? 'no'} key`] = { status, body }
    }
    if (process.env.RECORD_RESPONSES) {
      writeFileSync(process.env.RECORD_RESPONSES, `${JSON.stringify(responses, null, 2)}\n`)
    }
    assert.deepEqual(responses, JSON.parse(readFileSync(FILE, 'utf8')))
  })
})

function withoutValues(text: string): string {
  return text
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
    .replace(/"(created_at|ended_at|resets_at|since|until)":\d+/g, '"$1":TIME')
    .replace(/"\d{4}-\d\d-\d\dT[^"]*"/g, 'TIME')
}
