/**
 * Tests what requests to an upstream contain (headers, query, fields of the body, certificates), and which parts of it are
 * secret.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configFiles } from '../../test/support/config-files.ts'
import { selfSigned } from '../../test/support/self-signed.ts'
import type { Environment } from './settings.ts'
import type { UpstreamAccess } from './upstream-access.ts'

const { fileOf, load, problemsOf } = configFiles()
const address = { base_url: 'http://127.0.0.1:9/v1', api_key_env: null }

const fileWith = (upstream: object, model = 'm', more: object = {}) => ({
  upstreams: { own: { ...address, ...upstream } },
  models: { small: { targets: [{ upstream: 'own', model }] } },
  ...more,
})

function accessOf(upstream: object, env: Environment = {}, model = 'm'): UpstreamAccess {
  const access = load(fileWith(upstream, model), env).access.get('own')
  assert.ok(access)
  return access
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

/** Declares a test that an upstream with these settings stops the start with these problems. */
const stops = (name: string, upstream: object, env: Environment, ...says: readonly RegExp[]) =>
  test(`stops the start, without the value: ${name}`, () => {
    const problems = problemsOf(fileWith(upstream), env)
    assert.ok(!problems.join().includes('canary'), problems.join('\n'))
    assert.equal(problems.length, says.length, problems.join('\n'))
    for (const [at, pattern] of says.entries()) {
      const [, own] = /^upstreams\.own\.(.*)/.exec(problems[at] ?? '') ?? []
      assert.match(own ?? '', pattern, problems.join('\n'))
    }
  })
const noLogin = /^base_url: must not contain a user name or password; use api_key_env/

stops(
  'a variable of a header that is not set',
  { headers: { 'api-key': { env: 'AZURE_KEY' } } },
  {},
  /^headers\.api-key: the environment variable AZURE_KEY is not set$/,
)
stops(
  'a variable of the query that is not set',
  { query: { code: { env: 'CODE' } } },
  { CODE: '' },
  /^query\.code: the environment variable CODE is not set$/,
)
stops(
  'a name that no header can have',
  { headers: { 'x key': 'k' } },
  {},
  /^headers\.x key: unknown setting$/,
)
stops(
  'a header of the connection',
  { headers: { 'Content-Length': '0' } },
  {},
  /^headers\.Content-Length: Parley sets this header itself$/,
)
stops(
  'a header in two spellings',
  { headers: { 'X-Key': 'a', 'x-key': 'b' } },
  {},
  /^headers\.x-key: this header is already set with different capitalization$/,
)
stops(
  'authorization and a key',
  { api_key_env: 'KEY', headers: { Authorization: 'Basic x' } },
  { KEY: 'k' },
  /^headers\.Authorization: api_key_env already sends its key in this header/,
)
stops(
  'a value with a line break',
  { headers: { 'x-key': { env: 'KEY' } } },
  { KEY: 'canary\r\nx: y' },
  /^headers\.x-key: must be visible ASCII and not empty$/,
)
stops(
  'a key with a line end',
  { api_key_env: 'KEY' },
  { KEY: 'canary\n' },
  /^api_key_env: the value of KEY must be visible ASCII, without spaces and line ends$/,
)
stops(
  'a field that Parley sets itself',
  { body: { max_tokens: 5, stream: true, model: 'x' } },
  {},
  /^body\.stream: this field cannot be set here$/,
  /^body\.model: /,
)
stops('a user in the address', { base_url: 'http://canary@127.0.0.1/v1' }, {}, noLogin)
stops('a password in the address', { base_url: 'http://:canary@127.0.0.1/v1' }, {}, noLogin)
stops(
  'a file of certificates that does not exist',
  { ca_file: '/nowhere/ca.pem' },
  {},
  /^ca_file: ENOENT.*\/nowhere\/ca\.pem/,
)
stops(
  'a file without a certificate',
  { ca_file: fileOf(key) },
  {},
  /^ca_file: .* does not contain a PEM certificate$/,
)
stops('a certificate that is damaged', { ca_file: fileOf(cert.replace(/\n.{20}/, '\n')) }, {}, /^ca_file: /)

test('an upstream that no model uses may lack what it takes from outside', () => {
  const outside = { api_key_env: 'KEY', headers: { 'x-key': { env: 'HEADER' } }, ca_file: '/nowhere/ca.pem' }
  const { upstreams, ...file } = fileWith({})
  const { access } = load({ ...file, upstreams: { ...upstreams, other: { ...address, ...outside } } })
  assert.deepEqual(access.get('other'), { apiKey: null, headers: {}, query: {}, ca: null, secrets: [] })
})

test('a wake_url needs jobs that wait', () => {
  const wake = { wake_url: 'http://127.0.0.1:9/wake' }
  assert.equal(load(fileWith(wake)).settings.upstreams.own?.wake_url, wake.wake_url)
  assert.throws(
    () => load(fileWith(wake, 'm', { jobs: { patience_seconds: 0 } })),
    /upstreams\.own\.wake_url: no job waits for a model server while jobs\.patience_seconds is 0/,
  )
})
