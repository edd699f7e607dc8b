/** What the settings add to each request, from the server's view. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { reply } from '../../test/model-server.ts'
import { ask, isError, never, prompt, startClient } from '../../test/support/openai-client-setup.ts'
import { type Certificate, selfSigned } from '../../test/support/self-signed.ts'

test('headers are sent with each request, and replace ours of the same name', async (t) => {
  const headers = { 'Api-Key': 'k1', 'User-Agent': 'gateway-client' }
  const { server, client } = await startClient(t, { headers, apiKey: null })
  await ask(client, 'm', prompt(), never)
  const sent = server.requests[0]?.headers
  assert.deepEqual(
    [sent?.['api-key'], sent?.['user-agent'], sent?.authorization, sent?.['content-type']],
    ['k1', 'gateway-client', undefined, 'application/json'],
  )
})

test('parameters join those of the address, and replace those of the same name', async (t) => {
  const { server, client } = await startClient(t, { query: { 'api-version': '2024-10-21', code: 'a&b' } })
  await ask(client, 'm', prompt(), never)
  assert.equal(server.requests[0]?.path, '/v1/chat/completions?api-version=2024-10-21&code=a%26b')
})

test('fields of the body follow those of the request', async (t) => {
  const body = { max_tokens: 50, metadata: { team: 'a"b' } }
  const { server, client } = await startClient(t, { settings: { body } })
  await ask(client, 'm', prompt(), never)
  const messages = [{ role: 'user', content: 'Hello' }]
  assert.deepEqual(server.requests[0]?.body, { model: 'm', messages, ...body })
})

test('secrets are masked in what the server says, in full', async (t) => {
  const { client } = await startClient(t, {
    script: () => reply.status(400, { body: { error: { message: 'No: key-0123456789 and key-01234.' } } }),
    apiKey: null,
    secrets: ['key-0123456789', 'key-01234'],
  })
  const got = await ask(client, 'm', prompt(), never)
  isError(got)
  assert.equal(got.message, 'No: *** and ***.')
})

test('a server with a certificate of its own is trusted only with that certificate', async (t) => {
  const certificate = selfSigned([], ['127.0.0.1'])
  const base_url = await tlsServer(t, certificate)
  const trusting = await startClient(t, { settings: { base_url }, ca: certificate.cert })
  assert.equal((await ask(trusting.client, 'm', prompt(), never)).kind, 'answer')
  for (const ca of [null, selfSigned([], ['127.0.0.1']).cert]) {
    const { client } = await startClient(t, { settings: { base_url }, ca })
    const got = await ask(client, 'm', prompt(), never)
    isError(got)
    assert.match(got.message, /DEPTH_ZERO_SELF_SIGNED_CERT/)
  }
})

async function tlsServer(t: TestContext, certificate: Certificate): Promise<string> {
  const completion = { choices: [{ message: { content: 'Hello' }, finish_reason: 'stop' }] }
  const server = createServer(certificate, (_request, response) => response.end(JSON.stringify(completion)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}
