/** Tests what `parley check` advises, without a paid call, about configurations that fail on a real server. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type Reply, reply, type Script, startModelServer } from '../../../test/model-server.ts'
import { lmStudio, Ollama } from '../../../test/model-servers/desktop-servers.ts'
import { liteLlm, portkey, proxyWithoutServer } from '../../../test/model-servers/gateways.ts'
import { azure, google, KEY, openRouter } from '../../../test/model-servers/hosted-servers.ts'
import { temporaryFolder } from '../../../test/parley.ts'
import { type CheckOptions, checkServer } from '../../../test/support/check-servers.ts'
import { listen } from '../../../test/support/listen.ts'
import { selfSigned } from '../../../test/support/self-signed.ts'

const SHORT_MS = 300
const env = { KEY, WRONG: 'a-wrong-key-CANARY' }

interface Case {
  readonly name: string
  readonly script: Script
  /** The path of the upstream's URL, if it is not `/v1`. */
  readonly path?: string
  readonly upstream?: CheckOptions['upstream']
  readonly model?: string
  /** Matches the only problem. Absent if no problem is expected. */
  readonly wrong?: RegExp
  readonly notes?: RegExp
}

const header = (variable: string) => ({ headers: { 'api-key': { env: variable } } })
const version = { query: { 'api-version': '2024-10-21' } }
const viaPortkey = { headers: { 'x-portkey-provider': 'openai' } }
const noArray = {
  error: { message: "openai error: Expected 'messages' to be an array", type: 'server_error', code: 500 },
  provider: 'openai',
}
const noQuota = { message: 'You exceeded your quota.', code: 'insufficient_quota' }
const ofLlamaCpp = { object: 'list', data: [{ id: '/models/tiny.gguf', owned_by: 'llamacpp' }] }
/** The server lists its model, and answers everything else with this reply. */
const lists =
  (answer: Reply): Script =>
  ({ method }) =>
    method === 'GET' ? reply.models('tiny') : answer
const loading = { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } }

const cases: readonly Case[] = [
  { name: 'OpenAI-compatible server', script: () => undefined, model: 'a-model' },
  {
    name: 'an address that ends in /chat/completions',
    script: () => undefined,
    path: '/v1/chat/completions',
    wrong:
      /ends in \/v1\/chat\/completions, but Parley appends the endpoint itself -> remove this, so that upstreams\.own\.base_url ends in \/v1$/,
  },
  {
    name: 'Ollama without /v1',
    script: new Ollama().script,
    path: '',
    wrong:
      /HTTP 404 to POST \/chat\/completions: 404 page not found -> set upstreams\.own\.base_url to http:\/\/127\.0\.0\.1:\d+\/v1, where/,
  },
  {
    name: 'LM Studio without /v1, which answers 200',
    script: lmStudio(),
    path: '',
    wrong:
      /HTTP 200 to POST \/chat\/completions: Unexpected endpoint.* -> set upstreams\.own\.base_url to http:\S+\/v1, where/,
  },
  {
    name: 'a wrong path, where nothing better is found',
    script: () => reply.status(404),
    wrong:
      /no chat completions at this path.* -> set upstreams\.own\.base_url to the URL in the documentation of the server, without \/chat\/completions/,
  },
  {
    name: 'a web page instead of an API',
    script: () => reply.garbage(),
    wrong: /no chat completions at this path: HTTP 200 to POST \/v1\/chat\/completions/,
  },
  {
    name: 'a redirect',
    script: () =>
      reply.status(308, { headers: { location: 'https://models.example.com/v1/models' }, body: '' }),
    wrong:
      /redirects to models\.example\.com \(HTTP 308\).* -> set upstreams\.own\.base_url to https:\/\/models\.example\.com\/v1$/,
  },
  {
    name: 'Portkey without its header: 400 to GET /models',
    script: portkey(),
    wrong:
      /rejects GET \/models \(HTTP 400\): Either x-portkey-config or x-portkey-provider.* -> .*upstreams\.own\.headers/,
  },
  {
    name: 'Portkey with its header, which has no list of models',
    script: portkey(),
    upstream: viaPortkey,
    notes: /target own\/tiny: cannot be verified: the server has no list of models/,
  },
  {
    name: 'Portkey before llama.cpp, both of which answer 500 to what is asked for free',
    script: (request, index) =>
      request.method === 'GET' ? portkey()(request, index) : reply.status(500, { body: noArray }),
    upstream: viaPortkey,
    notes: /is not a list of models/,
  },
  {
    name: 'Portkey without the server behind it',
    script: portkey({ isServerDown: true }),
    upstream: viaPortkey,
    wrong: /fails with HTTP 500 to POST \/chat\/completions: Message: fetch failed/,
  },
  {
    name: 'a model that Ollama does not have',
    script: new Ollama().script,
    model: 'llama3.3',
    wrong:
      /target own\/llama3\.3: the server does not have this model; it has llama3\.2:latest -> set models\.small\.targets/,
  },
  { name: 'a model of Ollama without its tag', script: new Ollama().script, model: 'llama3.2' },
  {
    name: 'a model of Google without its folder',
    script: google(),
    model: 'gemini-2.5-flash',
    upstream: { api_key_env: 'KEY' },
  },
  {
    name: 'a variant of a model of OpenRouter',
    script: openRouter(),
    model: 'meta-llama/llama-3.2-3b-instruct:free',
    upstream: { api_key_env: 'KEY' },
  },
  {
    name: 'a key that LiteLLM rejects',
    script: liteLlm({ key: KEY }),
    upstream: { api_key_env: 'WRONG' },
    wrong: /own: rejects the API key \(HTTP 401\): Authentication Error.* -> set WRONG to a valid key/,
  },
  {
    name: 'no key, where one is needed',
    script: liteLlm({ key: KEY }),
    wrong: /requires an API key \(HTTP 401\).* -> set upstreams\.own\.api_key_env to the name/,
  },
  {
    name: 'a wrong key for OpenRouter, whose list of models is public',
    script: openRouter(),
    model: 'meta-llama/llama-3.2-3b-instruct',
    upstream: { api_key_env: 'WRONG' },
    wrong: /own: rejects the API key \(HTTP 401\): User not found\. -> set WRONG/,
  },
  {
    name: 'a wrong key for Google, which answers 400',
    script: google(),
    upstream: { api_key_env: 'WRONG' },
    wrong: /rejects the API key \(HTTP 400\): API key not valid/,
  },
  {
    name: 'Azure OpenAI',
    script: azure(),
    path: '/openai/deployments/gpt',
    upstream: { ...header('KEY'), ...version },
    notes: /has no list of models/,
  },
  {
    name: 'a wrong key for Azure OpenAI, in a header',
    script: azure(),
    path: '/openai/deployments/gpt',
    upstream: { ...header('WRONG'), ...version },
    wrong: /rejects the headers \(HTTP 401\): Access denied.* -> correct upstreams\.own\.headers/,
  },
  {
    name: 'Azure OpenAI without api-version',
    script: azure(),
    path: '/openai/deployments/gpt',
    upstream: header('KEY'),
    wrong: /HTTP 404.* -> set upstreams\.own\.query to \{ "api-version": "…" \}/,
  },
  {
    name: 'a deployment that Azure OpenAI does not have',
    script: azure(),
    path: '/openai/deployments/gtp',
    upstream: { ...header('KEY'), ...version },
    wrong: /target own\/tiny: the server does not have this model -> set models\.small\.targets/,
  },
  {
    name: 'a model that is still loading',
    script: () => reply.status(503, { body: loading }),
    wrong: /fails with HTTP 503 to GET \/models: Loading model -> wait until the server is ready/,
  },
  {
    name: 'a proxy without the server behind it',
    script: proxyWithoutServer(),
    wrong: /fails with HTTP 502 to GET \/models -> wait until the server is ready/,
  },
  {
    name: 'an account without credit',
    script: lists(reply.status(429, { body: { error: noQuota } })),
    wrong: /the account has no credit left \(HTTP 429\): You exceeded your quota\. -> add credit/,
  },
  {
    name: 'an account of xAI without credit',
    script: lists(reply.status(429, { body: { error: 'Your team 1 has used all available credits.' } })),
    wrong:
      /the account has no credit left \(HTTP 429\): Your team 1 has used all available credits\. -> add credit/,
  },
  {
    name: "a gateway's budget that is used up",
    script: lists(reply.status(412)),
    wrong: /the account has no credit left \(HTTP 412\): It answers 412\. -> add credit/,
  },
  {
    name: 'llama.cpp with another name for its only model',
    script: ({ method }) => (method === 'GET' ? reply.status(200, { body: ofLlamaCpp }) : undefined),
    notes: /does not list this model; it has \/models\/tiny\.gguf\. It accepts every model name/,
  },
]

for (const { name, script, path, upstream, model, wrong, notes } of cases) {
  test(`${wrong ? 'wrong' : 'right'}: ${name}`, async (t) => {
    const server = await startModelServer({ script }, t)
    const base_url = path === undefined ? server.baseUrl : server.baseUrl.replace('/v1', path)
    const checked = await checkServer(t, {
      upstream: { base_url, ...upstream },
      env,
      ...(model !== undefined && { model }),
    })
    const text = JSON.stringify(checked.findings, null, 2)
    if (wrong === undefined) assert.deepEqual([checked.code, checked.wrong], [0, ''], text)
    else {
      assert.equal(checked.code, 1, text)
      assert.match(checked.wrong, wrong)
      assert.equal(checked.wrong.split('\n').length, 1, checked.wrong)
    }
    if (notes !== undefined) assert.match(checked.notes, notes)
    assert.ok(!text.includes('CANARY') && !text.includes(KEY), 'no key is shown')
    for (const { method, body } of server.requests) {
      assert.ok(method === 'GET' || !Array.isArray(body.messages), 'nothing is sent that could be billed')
    }
  })
}

/** The upstream must have problems. */
async function wrongAt(t: TestContext, address: string, timeoutMs?: number): Promise<string> {
  const upstream = { base_url: `${address}/v1` }
  const { code, wrong } = await checkServer(t, { upstream, ...(timeoutMs !== undefined && { timeoutMs }) })
  assert.equal(code, 1)
  return wrong
}

const addressOf = async (t: TestContext, server: Server, scheme = 'http') =>
  `${scheme}://127.0.0.1:${await listen(t, server)}`

/** The server handles what its connections send first. */
const raw = (handle: (socket: Socket, first: string | Buffer) => void) =>
  createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (first) => handle(socket, first))
  })

async function fileWith(t: TestContext, text: string): Promise<string> {
  const file = join(await temporaryFolder(t), 'ca.pem')
  await writeFile(file, text)
  return file
}

const TLS_HANDSHAKE = 0x16
const MODELS = '{"object":"list","data":[{"id":"a-model"}]}'
const certificate = selfSigned([], ['127.0.0.1'])
const useTls = /speaks TLS, but the URL begins with http: -> use https: in upstreams\.own\.base_url/
const useHttp = /does not speak TLS, but the URL begins with https: -> use http: in /

test('wrong: nothing listens', async (t) => {
  const says = /nothing listens on 127\.0\.0\.1:1 \(ECONNREFUSED\) -> start the model server, or correct/
  assert.match(await wrongAt(t, 'http://127.0.0.1:1'), says)
})

test('wrong: a name that cannot be resolved', async (t) => {
  const says = /the name models\.invalid cannot be resolved \((?:ENOTFOUND|EAI_AGAIN)\) -> correct the host/
  assert.match(await wrongAt(t, 'http://models.invalid'), says)
})

test('wrong: http to a port that speaks TLS', async (t) => {
  assert.match(await wrongAt(t, await addressOf(t, createHttpsServer(certificate))), useTls)
})

test('wrong: http to a proxy that answers 400 on its port for TLS', async (t) => {
  const behind = createHttpsServer(certificate)
  const page = '<html><center>The plain HTTP request was sent to HTTPS port</center></html>'
  const server = raw((socket, first) => {
    if (first[0] !== TLS_HANDSHAKE) {
      socket.end(`HTTP/1.1 400 Bad Request\r\ncontent-length: ${page.length}\r\n\r\n${page}`)
      return
    }
    socket.pause()
    socket.unshift(first)
    behind.emit('connection', socket)
  })
  assert.match(await wrongAt(t, await addressOf(t, server)), useTls)
})

test('wrong: https to a port that speaks HTTP', async (t) => {
  const server = await startModelServer({}, t)
  assert.match(await wrongAt(t, server.baseUrl.replace('http:', 'https:').replace('/v1', '')), useHttp)
  assert.deepEqual(
    server.requests.map(({ headers }) => headers.authorization),
    [undefined],
    'no key is sent without TLS',
  )
})

test('wrong: https to a port that speaks HTTP and waits for the rest of a handshake, as llama.cpp does', async (t) => {
  const model = await startModelServer({}, t)
  const server = raw((socket, first) => {
    if (first[0] === TLS_HANDSHAKE) return
    const behind = connect(Number(new URL(model.baseUrl).port), '127.0.0.1')
    behind.on('error', () => socket.destroy())
    behind.write(first)
    socket.pipe(behind).pipe(socket)
  })
  assert.match(await wrongAt(t, await addressOf(t, server, 'https'), 2_000), useHttp)
})

test('wrong: a certificate that is not trusted; right with ca_file', async (t) => {
  const server = createHttpsServer(certificate, ({ method }, response) => {
    if (method === 'GET') response.end(MODELS)
    else response.writeHead(400).end('{"error":{"message":"messages must be an array"}}')
  })
  const address = await addressOf(t, server, 'https')
  const says = /certificate is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\) -> set upstreams\.own\.ca_file/
  assert.match(await wrongAt(t, address), says)
  const upstream = { base_url: `${address}/v1`, ca_file: await fileWith(t, certificate.cert) }
  const trusted = await checkServer(t, { upstream, model: 'a-model' })
  assert.deepEqual([trusted.code, trusted.wrong], [0, ''])
})

test('wrong: a certificate for another name', async (t) => {
  const other = selfSigned(['models.example.com'], [])
  const base_url = `${await addressOf(t, createHttpsServer(other), 'https')}/v1`
  const { wrong } = await checkServer(t, { upstream: { base_url, ca_file: await fileWith(t, other.cert) } })
  assert.match(wrong, /certificate is not for 127\.0\.0\.1 \(ERR_TLS_CERT_ALTNAME_INVALID\) -> use the name/)
})

test('wrong: a port that does not speak HTTP', async (t) => {
  const server = createServer((socket) => socket.on('error', () => {}).end('SSH-2.0-OpenSSH_9.9\r\n'))
  const says = /does not speak HTTP \(\w+\) -> correct the port in upstreams\.own\.base_url/
  assert.match(await wrongAt(t, await addressOf(t, server)), says)
})

test('wrong: a server that ends every connection', async (t) => {
  const server = createServer((socket) => socket.on('error', () => {}).destroy())
  const says = /closes the connection without a response \(\w+\) -> look at the log/
  assert.match(await wrongAt(t, await addressOf(t, server)), says)
})

test('wrong: a server that lists models, but is too busy to answer a completion', async (t) => {
  const server = createHttpServer(({ method }, response) => method === 'GET' && response.end(MODELS))
  const says = /not POST \/chat\/completions \(\w+\) -> wait until the server is less busy/
  assert.match(await wrongAt(t, await addressOf(t, server), SHORT_MS), says)
})

test('wrong: a server that accepts connections and does not answer', async (t) => {
  const server = createHttpServer(() => {})
  const says = /accepts connections, but does not respond \(\w+\) -> .*still be loading/
  assert.match(await wrongAt(t, await addressOf(t, server), SHORT_MS), says)
})
