/** Tests that bodies below /v1 are as /v1/openapi.json documents them, and have the types that OpenAI's own client declares. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { Check } from 'typebox/schema'
import { CALLERS, documentAt, OPERATORS } from '../http/openapi/document.ts'
import { startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import type { Answer } from '../parley.ts'
import { CLONE } from '../support/test-files.ts'

const CHAT = '/v1/chat/completions'
const RESPONSES = '/v1/responses'
const JSON_MEDIA = 'application/json'
/** The client adds `output_text`, so the server's body omits it. */
const RESPONSE = "Omit<OpenAI.Responses.Response, 'output_text'>"
const LIST =
  '{ object: "list"; data: OpenAI.Responses.ResponseItem[]; first_id: string; last_id: string; has_more: boolean }'
const HELLO = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'Hello' }] }
const INPUT = ['system', 'assistant', 'user'].map((role) => ({ role, content: role }))

onAnyStore(() => {
  test('answers and errors are as documented, also of every state of a response, and of the types of the client', async (t) => {
    const { parley, models } = await startStage(t)
    const authorization = `Bearer ${await parley.key()}`
    const document = await documentAt(parley, '/v1/openapi.json')
    /** @param route as the document names it, such as `get /v1/responses/{id}` */
    const ask = async (status: number, route: string, body?: object, id = ''): Promise<Answer['body']> => {
      const [method = '', path = ''] = route.split(' ')
      const answer = await parley.request(path.replace(/\{.*\}/, id), {
        method: method.toUpperCase(),
        headers: { ...(id !== 'x' && { authorization }), ...(body && { 'content-type': JSON_MEDIA }) },
        ...(body && { body: JSON.stringify(body) }),
      })
      const about = `${route} ${answer.status} ${answer.text}`
      assert.equal(answer.status, status, about)
      const { schema } = document.paths[path][method].responses[status].content[JSON_MEDIA]
      assert.ok(Check(schema, answer.body), about)
      return answer.body
    }
    await ask(200, `post ${CHAT}`, HELLO)
    await ask(400, `post ${CHAT}`, { ...HELLO, stream: true })
    await ask(404, `post ${CHAT}`, { ...HELLO, model: 'other' })
    await ask(200, 'get /v1/models')
    await ask(200, 'get /v1/models/{model}', undefined, 'gpt-5')
    await ask(401, 'get /v1/models/{model}', undefined, 'x')

    const bodies: [type: string, body: unknown][] = []
    const response = async (route: string, body?: object, id = ''): Promise<Answer['body']> => {
      const found = await ask(200, route, body, id)
      bodies.push([RESPONSE, found])
      return found
    }
    const create = (over: object = {}) =>
      response(`post ${RESPONSES}`, { model: 'gpt-5-mini', input: 'Hello', ...over })
    const one = `${RESPONSES}/{id}`
    models.script = () => reply.text('Hi.')
    const { id } = await create({
      ...{ instructions: 'Be brief.', metadata: { a: 'b' }, reasoning: { effort: 'low' } },
      ...{ max_output_tokens: 9, input: INPUT },
    })
    await response(`get ${one}`, undefined, id)
    bodies.push([LIST, await ask(200, `get ${one}/input_items`, undefined, id)])
    await response(`post ${one}/cancel`, undefined, id)
    await ask(200, `delete ${one}`, undefined, id)
    await ask(404, `get ${one}`, undefined, id)
    models.script = () => reply.json({ a: 'b' })
    const schema = { type: 'object', properties: { a: { type: 'string' } } }
    const format = { type: 'json_schema', name: 'a', description: 'An a.', strict: true, schema }
    await create({ text: { format } })
    await create({ text: { format: { type: 'json_object' } } })
    for (const ending of [reply.truncated('H'), reply.contentFilter()]) {
      models.script = () => ending
      await create()
    }
    models.script = () => reply.status(400)
    const failing = await create({ background: true })
    while ((await response(`get ${one}`, undefined, failing.id)).status !== 'failed');
    models.script = () => reply.stall()
    const calls = models.completions().length
    const queued = await create({ background: true })
    await models.received(calls + 1)
    await response(`get ${one}`, undefined, queued.id)
    await response(`post ${one}/cancel`, undefined, queued.id)
    assertTypes(bodies)
  })

  test('the document has the events and the options, and no other document has these routes', async (t) => {
    const { parley } = await startStage(t)
    const { webhooks, paths } = await documentAt(parley, '/v1/openapi.json')
    assert.ok(webhooks.responseEnded.post.requestBody)
    assert.ok(webhooks.batchEnded.post.requestBody)
    const { schema } = paths[CHAT].post.requestBody.content[JSON_MEDIA]
    assert.ok(Check(schema, { ...HELLO, temperature: 1, response_format: { type: 'json_object' } }))
    for (const other of [CALLERS, OPERATORS]) {
      const routes = Object.keys((await documentAt(parley, other)).paths)
      assert.deepEqual(
        routes.filter((path) => path.startsWith('/v1/')),
        [],
      )
    }
  })
})

const OPTIONS = '--ignoreConfig --noEmit --strict --skipLibCheck --target es2024 --module nodenext'.split(' ')

/** The compiler checks all bodies as literals, so that an unknown field is also an error. */
function assertTypes(bodies: readonly (readonly [type: string, body: unknown])[]): void {
  // The folder is below the clone, where the compiler finds the packages.
  const folder = mkdtempSync(join(CLONE, 'node_modules/.cache-types-'))
  try {
    const lines = bodies.map(([type, body], at) => `export const b${at}: ${type} = ${JSON.stringify(body)}`)
    const file = join(folder, 'bodies.ts')
    writeFileSync(file, [`import type OpenAI from 'openai'`, ...lines].join('\n'))
    const tsc = join(CLONE, 'node_modules/.bin/tsc')
    const { status, stdout, stderr } = spawnSync(tsc, [...OPTIONS, file], { encoding: 'utf8', cwd: folder })
    assert.equal(status, 0, `${stdout}${stderr}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
