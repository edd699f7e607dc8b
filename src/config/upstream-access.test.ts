/**
 * Tests what requests to an upstream contain (headers, query, fields of the body, certificates), and which parts of it are
 * secret.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { selfSigned } from '../../test/support/self-signed.ts'
import { ConfigurationError } from './file.ts'
import { loadConfiguration } from './load.ts'
import type { Environment } from './settings.ts'
import type { UpstreamAccess } from './upstream-access.ts'

const folder = mkdtempSync(join(tmpdir(), 'parley-access-'))
after(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
function fileOf(text: string): string {
  const path = join(folder, `${files++}`)
  writeFileSync(path, text)
  return path
}

/** Loads a configuration with a single upstream, which has these settings and one model. */
function load(upstream: object, env: Environment = {}, model = 'm', settings: object = {}) {
  const own = { base_url: 'http://127.0.0.1:9/v1', api_key_env: null, ...upstream }
  const models = { small: { targets: [{ upstream: 'own', model }] } }
  return loadConfiguration(env, fileOf(JSON.stringify({ upstreams: { own }, models, ...settings })))
}

function accessOf(upstream: object, env: Environment = {}, model = 'm'): UpstreamAccess {
  const access = load(upstream, env, model).access.get('own')
  assert.ok(access)
  return access
}

function problemsOf(upstream: object, env: Environment = {}): string {
  try {
    load(upstream, env)
  } catch (error) {
    assert.ok(error instanceof ConfigurationError, String(error))
    return error.message.replace(/ \(\S+:\d+\)$/gm, '')
  }
  return ''
}

test('headers and query take values from the file and from the environment', () => {
  const { apiKey, headers, query } = accessOf(
    {
      headers: { 'x-provider': 'openai', 'api-key': { env: 'AZURE_KEY' } },
      query: { 'api-version': '2024-10-21', code: { env: 'CODE' } },
    },
    { AZURE_KEY: 'k1', CODE: 'c1' },
  )
  assert.equal(apiKey, null)
  assert.deepEqual(headers, { 'x-provider': 'openai', 'api-key': 'k1' })
  assert.deepEqual(query, { 'api-version': '2024-10-21', code: 'c1' })
})

test('secrets are the key, values of the environment, long parts of headers, and what has the name of a secret', () => {
  const { secrets } = accessOf(
    {
      base_url: 'http://127.0.0.1:9/v1?sig=abc&v=20241021',
      api_key_env: 'KEY',
      headers: {
        'x-provider': 'openai',
        'x-config': '{"key":"inside-0123"}',
        'x-short': { env: 'SHORT' },
        'x-token': 'tok',
      },
      query: { 'api-version': '2024-10-21', code: { env: 'CODE' }, key: 'k' },
    },
    { KEY: 'the-key', SHORT: 'ab', CODE: 'cd' },
  )
  const expected = ['{"key":"inside-0123"}', 'inside-0123', 'the-key', 'abc', 'tok', 'ab', 'cd', 'k']
  assert.deepEqual([...secrets].sort(), [...expected].sort())
  const lengths = secrets.map(({ length }) => length)
  assert.deepEqual(
    lengths,
    [...lengths].sort((a, b) => b - a),
    'none is masked only in part',
  )
})

test('strings of the body are secrets, at any depth, but not short ones, names of fields or the name of the model', () => {
  const body = {
    tenant_of_this: 'tenant-0123',
    nested: { list: [{ deep: 'deep-0123456' }, 'listed-0'], seven: '7654321', count: 12345678, no: null },
    models: ['vendor/model-large', 'model-large', 'vendor/other-model'],
  }
  const { secrets } = accessOf({ body }, {}, 'vendor/model-large')
  assert.deepEqual(secrets, ['vendor/other-model', 'deep-0123456', 'tenant-0123', 'listed-0'])
})

const { cert, key } = selfSigned(['models.example.com'], [])

test('ca_file gives the certificates of the file, and nothing else of it', () => {
  const file = fileOf(`# ours\n${cert}\n${key}\n${cert}`)
  const pem = cert.trim()
  assert.equal(accessOf({ ca_file: file }).ca, `${pem}\n${pem}`)
})

const faults: readonly { name: string; upstream: object; env?: Environment; says: RegExp }[] = [
  {
    name: 'a variable of a header that is not set',
    upstream: { headers: { 'api-key': { env: 'AZURE_KEY' } } },
    says: /^upstreams\.own\.headers\.api-key: the environment variable AZURE_KEY is not set$/,
  },
  {
    name: 'a variable of the query that is not set',
    upstream: { query: { code: { env: 'CODE' } } },
    env: { CODE: '' },
    says: /^upstreams\.own\.query\.code: the environment variable CODE is not set$/,
  },
  {
    name: 'a name that no header can have',
    upstream: { headers: { 'x key': 'k' } },
    says: /^upstreams\.own\.headers\.x key: unknown setting$/,
  },
  {
    name: 'a header of the connection',
    upstream: { headers: { 'Content-Length': '0' } },
    says: /^upstreams\.own\.headers\.Content-Length: Parley sets this header itself$/,
  },
  {
    name: 'a header in two spellings',
    upstream: { headers: { 'X-Key': 'a', 'x-key': 'b' } },
    says: /^upstreams\.own\.headers\.x-key: this header is already set with different capitalization$/,
  },
  {
    name: 'authorization and a key',
    upstream: { api_key_env: 'KEY', headers: { Authorization: 'Basic x' } },
    env: { KEY: 'k' },
    says: /^upstreams\.own\.headers\.Authorization: api_key_env already sends its key in this header/,
  },
  {
    name: 'a value with a line break',
    upstream: { headers: { 'x-key': { env: 'KEY' } } },
    env: { KEY: 'canary\r\nx: y' },
    says: /^upstreams\.own\.headers\.x-key: must be visible ASCII and not empty$/,
  },
  {
    name: 'a key with a line end',
    upstream: { api_key_env: 'KEY' },
    env: { KEY: 'canary\n' },
    says: /^upstreams\.own\.api_key_env: the value of KEY must be visible ASCII, without spaces and line ends$/,
  },
  {
    name: 'a field that Parley sets itself',
    upstream: { body: { max_tokens: 5, stream: true, model: 'x' } },
    says: /^upstreams\.own\.body\.stream: this field cannot be set here\nupstreams\.own\.body\.model: /,
  },
  {
    name: 'a user in the address',
    upstream: { base_url: 'http://canary@127.0.0.1/v1' },
    says: /^upstreams\.own\.base_url: must not contain a user name or password; use api_key_env/,
  },
  {
    name: 'a password in the address',
    upstream: { base_url: 'http://:canary@127.0.0.1/v1' },
    says: /^upstreams\.own\.base_url: must not contain a user name or password/,
  },
  {
    name: 'a file of certificates that does not exist',
    upstream: { ca_file: '/nowhere/ca.pem' },
    says: /^upstreams\.own\.ca_file: ENOENT.*\/nowhere\/ca\.pem/,
  },
  {
    name: 'a file without a certificate',
    upstream: { ca_file: fileOf(key) },
    says: /^upstreams\.own\.ca_file: .* does not contain a PEM certificate$/,
  },
  {
    name: 'a certificate that is damaged',
    upstream: { ca_file: fileOf(cert.replace(/\n.{20}/, '\n')) },
    says: /^upstreams\.own\.ca_file: /,
  },
]

for (const { name, upstream, env, says } of faults) {
  test(`stops the start, without the value: ${name}`, () => {
    const problems = problemsOf(upstream, env)
    assert.match(problems, says)
    assert.ok(!problems.includes('canary'), problems)
  })
}

test('an upstream that no model uses may lack what it takes from outside', () => {
  const other = {
    base_url: 'http://127.0.0.1:9/v1',
    api_key_env: 'KEY',
    headers: { 'x-key': { env: 'HEADER' } },
    ca_file: '/nowhere/ca.pem',
  }
  const own = { base_url: 'http://127.0.0.1:9/v1', api_key_env: null }
  const models = { small: { targets: [{ upstream: 'own', model: 'm' }] } }
  const { access } = loadConfiguration({}, fileOf(JSON.stringify({ upstreams: { own, other }, models })))
  assert.deepEqual(access.get('other'), { apiKey: null, headers: {}, query: {}, ca: null, secrets: [] })
})

test('a wake_url needs jobs that wait', () => {
  const wake = { wake_url: 'http://127.0.0.1:9/wake' }
  assert.equal(load(wake).settings.upstreams.own?.wake_url, wake.wake_url)
  assert.throws(
    () => load(wake, {}, 'm', { jobs: { patience_seconds: 0 } }),
    /upstreams\.own\.wake_url: no job waits for a model server while jobs\.patience_seconds is 0/,
  )
})
