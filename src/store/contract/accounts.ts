/** What every store promises of accounts and keys. */
import assert from 'node:assert/strict'
import type { NewKey } from '../account-store.ts'
import { type On, START_MS } from './fixtures.ts'

export function accountTests(on: On): void {
  const key = (over: Partial<NewKey> = {}): NewKey => ({
    id: 'key_1',
    hash: 'h1',
    account: 'acme',
    tier: 'user_go',
    secret: 'whsec_1',
    createdAtMs: START_MS,
    expiresAtMs: null,
    ...over,
  })

  on('makes an account with its first key, and finds keys by their hash', async (store) => {
    assert.equal(await store.hasAccounts(), false)
    assert.deepEqual(await store.createKey(key()), { kind: 'created' })
    assert.deepEqual(await store.createKey(key({ id: 'key_2', hash: 'h2', expiresAtMs: 9 })), {
      kind: 'created',
    })
    assert.equal(await store.hasAccounts(), true)
    const common = { account: 'acme', tier: 'user_go', createdAtMs: START_MS, revokedAtMs: null }
    assert.deepEqual(await store.findKey('h2'), { id: 'key_2', ...common, expiresAtMs: 9 })
    assert.equal(await store.findKey('h3'), null)
    assert.deepEqual(
      (await store.listKeys()).map(({ id }) => id),
      ['key_1', 'key_2'],
    )
  })

  on('does not change the tier of an account by a new key', async (store) => {
    await store.createKey(key())
    const other = await store.createKey(key({ id: 'key_2', hash: 'h2', tier: 'user_max' }))
    assert.deepEqual(other, { kind: 'other tier', tier: 'user_go' })
    assert.equal((await store.listKeys()).length, 1)
    assert.equal(await store.setTier('acme', 'user_max'), true)
    assert.equal((await store.findKey('h1'))?.tier, 'user_max')
    assert.equal(await store.setTier('nobody', 'user_max'), false)
  })

  on('revokes a key once', async (store) => {
    await store.createKey(key())
    assert.equal(await store.revokeKey('key_1', 5), 'revoked')
    assert.equal(await store.revokeKey('key_1', 6), 'revoked before')
    assert.equal(await store.revokeKey('key_9', 6), 'unknown')
    assert.equal((await store.findKey('h1'))?.revokedAtMs, 5)
  })

  on('rotates the signing secret and keeps the one before', async (store) => {
    await store.createKey(key())
    assert.deepEqual(await store.secrets('acme'), { current: 'whsec_1', previous: null })
    assert.equal(await store.rotateSecret('acme', 'whsec_2', 7), true)
    const previous = { secret: 'whsec_1', rotatedAtMs: 7 }
    assert.deepEqual(await store.secrets('acme'), { current: 'whsec_2', previous })
    assert.equal(await store.rotateSecret('nobody', 'whsec_3', 7), false)
    assert.equal(await store.secrets('nobody'), null)
  })
}
