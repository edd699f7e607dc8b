import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maskedDatabase, maskedSettings } from './masked.ts'
import { DEFAULTS, UPSTREAM_DEFAULTS } from './settings.ts'

test('the password of a database is not shown, wherever it is', () => {
  const shown: Record<string, string> = {
    'sqlite:./data/parley.db': 'sqlite:./data/parley.db',
    'postgres://parley:s3cret@db:5432/parley': 'postgres://parley:***@db:5432/parley',
    'postgres://parley@db/parley?sslmode=require&password=s3cret':
      'postgres://parley@db/parley?sslmode=require&password=***',
    'postgresql:///parley?host=/run/pg&user=me&sslkey=/k&PASSWORD=s3cret':
      'postgresql:///parley?host=/run/pg&user=me&sslkey=***&PASSWORD=***',
    'postgres://p%40rley:s3%3Acret@db/parley': 'postgres://p%40rley:***@db/parley',
  }
  for (const [given, masked] of Object.entries(shown)) {
    assert.equal(maskedDatabase(given).replaceAll('%2F', '/'), masked)
  }
})

test('user, password and key in the address of a model server are not shown, and the rest is unchanged', () => {
  const base_url = 'https://sk-s3cret:s3cret@models.example.com/v1?code=7&api_key=s3cret&api_key=s3cret'
  const settings = { ...DEFAULTS, upstreams: { own: { ...UPSTREAM_DEFAULTS, base_url } } }
  const { upstreams, ...rest } = maskedSettings(settings)
  assert.equal(upstreams.own?.base_url, 'https://***:***@models.example.com/v1?code=7&api_key=***')
  assert.deepEqual({ ...rest, upstreams: settings.upstreams }, settings)
})

test('headers, and parameters and fields with the name of a secret, are not shown, and the rest is unchanged', () => {
  const own = {
    ...UPSTREAM_DEFAULTS,
    headers: { 'x-provider': 'openai', 'api-key': { env: 'AZURE_KEY' } },
    query: { 'api-version': '2024-10-21', sig: 's3cret', key: { env: 'KEY' } },
    body: {
      max_tokens: 50,
      user: 'parley',
      auth: { parameters: { value: 's3cret', list: ['s3cret', 7] } },
      sources: [{ key: 's3cret', index: 'a' }],
    },
  }
  const { upstreams } = maskedSettings({ ...DEFAULTS, upstreams: { own } })
  assert.deepEqual(upstreams.own, {
    ...own,
    headers: { 'x-provider': '***', 'api-key': { env: 'AZURE_KEY' } },
    query: { 'api-version': '2024-10-21', sig: '***', key: { env: 'KEY' } },
    body: {
      max_tokens: 50,
      user: 'parley',
      auth: { parameters: { value: '***', list: ['***', 7] } },
      sources: [{ key: '***', index: 'a' }],
    },
  })
})
