import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { makeSecret, sign } from './signing-secrets.ts'

const ID = '0198c0de-0000-7000-8000-000000000001'
const nowS = Math.floor(Date.now() / 1000)

/** Verifies the three headers with the package `standardwebhooks`, as a receiver does. The timestamp must be recent. */
function verifies(secret: string, signature: string, body: string, id = ID, timestampS = nowS): boolean {
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': String(timestampS),
    'webhook-signature': signature,
  }
  try {
    new Webhook(secret).verify(body, headers, { jsonParse: false })
    return true
  } catch {
    return false
  }
}

test('the package standardwebhooks creates the same signatures and verifies ours', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.json(), (random, body) => {
      const secret = makeSecret(() => random)
      const signature = sign([secret], ID, nowS, body)
      assert.equal(signature, new Webhook(secret).sign(ID, new Date(nowS * 1000), body))
      assert.ok(verifies(secret, signature, body))
    }),
    { numRuns: 200 },
  )
})

test('non-ASCII text is signed as the UTF-8 bytes that are sent', () => {
  const secret = makeSecret()
  const body = '{"text":"größer 😀"}'
  assert.ok(verifies(secret, sign([secret], ID, nowS, body), body))
})

test('after a rotation both the old and the new secret verify, and no other', () => {
  const [old, recent, other] = [makeSecret(), makeSecret(), makeSecret()]
  const signature = sign([recent, old], ID, nowS, '{}')
  assert.match(signature, /^v1,\S+ v1,\S+$/)
  const verified = [old, recent, other].map((secret) => verifies(secret, signature, '{}'))
  assert.deepEqual(verified, [true, true, false])
})

test('a changed body, id or time does not verify', () => {
  const secret = makeSecret()
  const signature = sign([secret], ID, nowS, '{"a":1}')
  assert.ok(verifies(secret, signature, '{"a":1}'))
  assert.ok(!verifies(secret, signature, '{"a":2}'))
  assert.ok(!verifies(secret, signature, '{"a":1}', `${ID}x`))
  assert.ok(!verifies(secret, signature, '{"a":1}', ID, nowS + 1))
})

test('secrets are whsec_ and 32 random bytes in base64', () => {
  const secret = makeSecret()
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  assert.notEqual(secret, makeSecret())
  const zeros = (bytes: number) => new Uint8Array(bytes)
  assert.equal(makeSecret(zeros), `whsec_${'A'.repeat(43)}=`)
})

test('signing without a secret is an error', () => {
  assert.throws(() => sign([], ID, nowS, '{}'), /needs a secret/)
  assert.throws(() => sign(['whsec_'], ID, nowS, '{}'), /empty/)
})
