/** Tests that the model server for tests can be killed and started again, and that it lists its models. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reply, startModelServer } from './model-server.ts'

const completion = (baseUrl: string, text: string) =>
  fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: text }] }),
  })

test('it can be killed in the middle of an answer, refuses connections, and comes back on the same port', async (t) => {
  const server = await startModelServer({ script: () => reply.stall() }, t)
  const before = server.baseUrl

  const pending = completion(server.baseUrl, 'Hello')
  await server.received(1)
  await Promise.all([assert.rejects(pending, hasCode('ECONNRESET')), server.kill()])
  assert.equal(await server.requests[0]?.ended, 'cut')
  await assert.rejects(completion(server.baseUrl, 'Hello'), hasCode('ECONNREFUSED'))

  server.script = () => undefined
  await server.start()
  assert.equal(server.baseUrl, before)
  assert.equal((await completion(server.baseUrl, 'Hello')).status, 200)
})

test('it lists its models, and rejects a completion without messages', async (t) => {
  const server = await startModelServer(
    {
      script: (request) => (request.method === 'GET' ? reply.models('a', 'b') : undefined),
    },
    t,
  )
  const list = (await (await fetch(`${server.baseUrl}/models`)).json()) as { data: { id: string }[] }
  assert.deepEqual(
    list.data.map((model: { id: string }) => model.id),
    ['a', 'b'],
  )
  assert.equal(
    (await fetch(`${server.baseUrl}/chat/completions`, { method: 'POST', body: '{}' })).status,
    400,
  )
  assert.equal(server.completions().length, 1)
})

function hasCode(code: string) {
  return (error: unknown) => {
    const cause = error instanceof Error ? error.cause : undefined
    assert.equal(cause instanceof Error && 'code' in cause ? cause.code : cause, code)
    return true
  }
}
