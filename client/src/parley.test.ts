import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { ConfigurationError, Parley } from './index.ts'

/** The client records its requests instead of sending them. */
function recording(options: ConstructorParameters<typeof Parley>[0]) {
  const sent: { readonly url: string; readonly headers: Headers }[] = []
  const fetch: typeof globalThis.fetch = async (input, init) => {
    sent.push({ url: String(input), headers: new Headers(init?.headers) })
    return Response.json({ success: true, message: '', data: {} })
  }
  return { client: new Parley({ ...options, fetch }), sent }
}

/** The variables are set until the test ends. */
function withEnvironment(t: TestContext, variables: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name]
    process.env[name] = value
    t.after(() => {
      if (before === undefined) delete process.env[name]
      else process.env[name] = before
    })
  }
}

test('address and key come from the environment, and options beat it', async (t) => {
  withEnvironment(t, { PARLEY_URL: 'https://parley.example.com', PARLEY_API_KEY: 'prl_env' })
  const { client, sent } = recording({})
  await client.me()
  assert.equal(sent[0]?.url, 'https://parley.example.com/api/v1/me')
  assert.equal(sent[0]?.headers.get('x-api-key'), 'prl_env')
  const other = recording({ baseUrl: 'http://localhost:1/', apiKey: 'prl_given' })
  await other.client.me()
  assert.equal(other.sent[0]?.url, 'http://localhost:1/api/v1/me')
  assert.equal(other.sent[0]?.headers.get('x-api-key'), 'prl_given')
})

test('without an address it is the one that a server has by itself; without a key it says so', async (t) => {
  withEnvironment(t, { PARLEY_URL: '', PARLEY_API_KEY: '' })
  const { client, sent } = recording({ apiKey: 'prl_x' })
  await client.me()
  assert.equal(sent[0]?.url, 'http://127.0.0.1:8080/api/v1/me')
  assert.throws(() => new Parley(), /PARLEY_API_KEY/)
})

test('a base URL may have a path, and nothing that would be lost', async () => {
  const { client, sent } = recording({ baseUrl: 'https://example.com/parley//', apiKey: 'prl_x' })
  await client.messages.retrieve('a/b?c')
  assert.equal(sent[0]?.url, 'https://example.com/parley/api/v1/messages/a%2Fb%3Fc')
  for (const baseUrl of ['example.com', 'ftp://example.com', 'http://me@example.com', 'http://x/?a=b']) {
    assert.throws(() => new Parley({ baseUrl, apiKey: 'prl_x' }), ConfigurationError, baseUrl)
  }
})

test('a key that no header can hold is refused without being shown', () => {
  for (const apiKey of ['prl_x\n', 'prl_ü', ' prl_x']) {
    assert.throws(
      () => new Parley({ apiKey }),
      (error) => error instanceof ConfigurationError && !error.message.includes('prl_'),
    )
  }
})

test('headers for what stands in front are sent, and cannot replace the key', async () => {
  const { client, sent } = recording({
    baseUrl: 'http://localhost:1',
    apiKey: 'prl_x',
    headers: { 'x-tenant': 'acme', 'x-api-key': 'no' },
  })
  await client.me()
  assert.equal(sent[0]?.headers.get('x-tenant'), 'acme')
  assert.equal(sent[0]?.headers.get('x-api-key'), 'prl_x')
})
