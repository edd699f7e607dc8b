/** /v1/openapi.json, apart from the documents of Parley's own API. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { Check } from 'typebox/schema'
import { CALLERS, documentAt, OPERATORS } from '../http/openapi/document.ts'
import { startStage } from '../http/stage.ts'
import { onAnyStore } from '../on-each-store.ts'

const CHAT = '/v1/chat/completions'
const JSON_MEDIA = 'application/json'

onAnyStore(() => {
  test('answers and errors are as documented, and no other document has these routes', async (t) => {
    const { parley } = await startStage(t)
    const headers = { authorization: `Bearer ${await parley.key()}`, 'content-type': JSON_MEDIA }
    const document = await documentAt(parley, '/v1/openapi.json')
    const post = (body: object) =>
      parley.request(CHAT, { method: 'POST', headers, body: JSON.stringify(body) })
    const asked = { model: 'gpt-5-mini', input: 'Hello' }
    const ask = async (method: string, path: string, body?: object, id = '') => {
      const init = {
        method: method.toUpperCase(),
        headers: body ? headers : { authorization: headers.authorization },
      }
      const answer = await parley.request(
        path.replace('{id}', id),
        body ? { ...init, body: JSON.stringify(body) } : init,
      )
      const { schema } = document.paths[path][method].responses[answer.status].content[JSON_MEDIA]
      assert.ok(Check(schema, answer.body), `${path} ${answer.status} ${answer.text}`)
      return answer
    }
    const hello = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'Hello' }] }
    const answers: [string, string, Awaited<ReturnType<typeof post>>][] = [
      ['post', CHAT, await post(hello)],
      ['post', CHAT, await post({ ...hello, stream: true })],
      ['post', CHAT, await post({ ...hello, model: 'other' })],
      ['get', '/v1/models', await parley.request('/v1/models', { headers })],
      ['get', '/v1/models/{model}', await parley.request('/v1/models/gpt-5', { headers })],
      ['get', '/v1/models/{model}', await parley.request('/v1/models/x', { headers: {} })],
    ]
    assert.deepEqual(
      answers.map(([, , { status }]) => status),
      [200, 400, 404, 200, 200, 401],
    )
    for (const [method, path, { status, body }] of answers) {
      const { schema } = document.paths[path][method].responses[status].content[JSON_MEDIA]
      assert.ok(Check(schema, body), `${path} ${status} ${JSON.stringify(body)}`)
    }
    const responses = [
      await ask('post', '/v1/responses', { ...asked, instructions: 'x', metadata: { a: 'b' } }),
      await ask('post', '/v1/responses', { ...asked, background: true }),
    ]
    const [{ id }] = responses.map(({ body }) => body)
    for (const [method, path] of [
      ['get', '/v1/responses/{id}'],
      ['get', '/v1/responses/{id}/input_items'],
      ['post', '/v1/responses/{id}/cancel'],
      ['delete', '/v1/responses/{id}'],
      ['get', '/v1/responses/{id}'],
    ] as const) {
      responses.push(await ask(method, path, undefined, id))
    }
    assert.deepEqual(
      responses.map(({ status }) => status),
      [200, 200, 200, 200, 200, 200, 404],
    )
    assert.ok(document.webhooks.responseEnded.post.requestBody)
    assert.ok(document.webhooks.batchEnded.post.requestBody)
    const schema = document.paths[CHAT].post.requestBody.content[JSON_MEDIA].schema
    assert.ok(Check(schema, { ...hello, temperature: 1, response_format: { type: 'json_object' } }))
    for (const other of [CALLERS, OPERATORS]) {
      const { paths } = await documentAt(parley, other)
      assert.deepEqual(
        Object.keys(paths).filter((path) => path.startsWith('/v1/')),
        [],
      )
    }
  })
})
