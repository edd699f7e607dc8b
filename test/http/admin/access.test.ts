/**
 * Tests who can access the admin API. Operators can create admin tokens, which the audit log names, and which can be read-only
 * and be revoked.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import type { FakeClock } from '../../fake-clock.ts'
import { onEachStore } from '../../on-each-store.ts'
import { ADMIN_TOKEN, type Answer, type Parley } from '../../parley.ts'
import { beforeTests } from '../../support/on-first-use.ts'
import { callerOf, idOf, idsOf } from '../caller.ts'
import { granted, invalid, refused } from '../expect.ts'
import { startStage } from '../stage.ts'
import { type Admin, type AdminRoute, adminOf, adminRoutesOf, BASE, startAdminScene } from './admin.ts'

const REFUSAL = {
  message: 'Admin token is required.',
  details: 'Supply the admin token as Authorization: Bearer TOKEN.',
}
const WRONG_TOKENS = 10
const MINUTE_MS = 60_000

const KNOWN_WITHIN_MS = 2000
const HOUR_MS = 3_600_000

onEachStore(() => {
  let parley: Parley
  let clock: FakeClock
  let key: string
  let admin: Admin
  let routes: readonly AdminRoute[]
  beforeTests(async (t) => {
    const settings = { cors: { origins: ['https://app.example.com'] }, trust_proxy: true }
    ;({ parley, clock } = await startStage(t, { settings }))
    key = await parley.key()
    admin = await adminOf(parley)
    routes = await adminRoutesOf(parley)
  })

  const callerAt = (address: string) => ({ 'x-forwarded-for': address })

  function call({ method, path, body }: AdminRoute, headers: Record<string, string>): Promise<Answer> {
    return parley.request(path.replaceAll(/\{\w+\}/g, 'x'), {
      method,
      headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: '{"wrong":' }),
    })
  }

  test('401 with the same text without the token or with a wrong one, on every route, before anything else', async () => {
    const wrong: Record<string, string | undefined> = {
      missing: undefined,
      empty: '',
      'of another scheme': `Basic ${ADMIN_TOKEN}`,
      bare: ADMIN_TOKEN,
      wrong: 'Bearer admin-token-for-testz',
      shorter: `Bearer ${ADMIN_TOKEN.slice(0, -1)}`,
      longer: `Bearer ${ADMIN_TOKEN}0`,
      'an API key': `Bearer ${key}`,
    }
    let address = 0
    for (const route of routes) {
      for (const [name, authorization] of Object.entries(wrong)) {
        address += 1
        const about = `${route.method} ${route.path}, ${name}`
        const from = callerAt(`10.0.${address >> 8}.${address & 255}`)
        const headers = { 'x-api-key': key, ...from, ...(authorization !== undefined && { authorization }) }
        const answer = await call(route, headers)
        assert.deepEqual(refused(answer, 401), REFUSAL, about)
        assert.equal(answer.headers.get('www-authenticate'), 'Bearer', about)
        assert.equal(answer.headers.get('cache-control'), 'no-store', about)
      }
    }
  })

  test('the admin token gives access to nothing else', async () => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'x-api-key': ADMIN_TOKEN }
    refused(await parley.get('/api/v1/me', undefined, headers), 401)
  })

  test('429 for an address that sent many wrong tokens, except with the right one, until a minute has passed', async () => {
    const guess = (address: string, token = 'guess') =>
      parley.get(`${BASE}/accounts`, undefined, { authorization: `Bearer ${token}`, ...callerAt(address) })
    for (let sent = 0; sent < WRONG_TOKENS; sent++) refused(await guess('192.0.2.1'), 401)
    const limited = await guess('192.0.2.1')
    refused(limited, 429, {
      message: 'Too many wrong admin tokens.',
      details: 'Only the right token is accepted from this address for 60 s.',
    })
    assert.equal(limited.headers.get('retry-after'), '60')
    granted(await guess('192.0.2.1', ADMIN_TOKEN), 200)
    refused(await guess('192.0.2.1'), 429)
    refused(await guess('192.0.2.2'), 401)
    clock.advance(MINUTE_MS)
    refused(await guess('192.0.2.1'), 401)
    // A host usually has a whole /64 network of IPv6 addresses, so guesses from one network count together.
    for (let sent = 0; sent < WRONG_TOKENS; sent++) refused(await guess(`2001:db8:0:1::${sent}`), 401)
    refused(await guess('2001:db8:0:1:ffff::1'), 429)
    refused(await guess('2001:db8:0:2::1'), 401)
  })

  test('requests without a token are not guesses, and are not limited', async () => {
    const from = callerAt('192.0.2.3')
    for (let sent = 0; sent <= WRONG_TOKENS; sent++) {
      refused(await parley.get(`${BASE}/overview`, undefined, from), 401)
    }
    const headers = { authorization: `bearer ${ADMIN_TOKEN}`, ...from }
    granted(await parley.get(`${BASE}/overview`, undefined, headers), 200)
  })

  test('responses are not cached, and pages of other origins get no access', async () => {
    const origin = { origin: 'https://app.example.com' }
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, ...origin }
    const answer = await parley.get(`${BASE}/settings`, undefined, headers)
    granted(answer, 200)
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.equal(answer.headers.get('access-control-allow-origin'), null)
    assert.ok((await parley.get('/healthz', undefined, origin)).headers.get('access-control-allow-origin'))
    const preflight = await parley.request(`${BASE}/keys`, {
      method: 'OPTIONS',
      headers: { ...origin, 'access-control-request-method': 'POST' },
    })
    const wrongMethod = await parley.request(`${BASE}/keys`, { method: 'PUT', headers: origin })
    assert.deepEqual([preflight.status, wrongMethod.status], [204, 405])
    for (const given of [preflight, wrongMethod]) {
      for (const [name] of given.headers) assert.doesNotMatch(name, /^access-control-/)
    }
  })

  test("operators' reads do not count against any caller's limit", async (t) => {
    const settings = { tiers: { user_go: { reads_per_minute: 1 } } }
    const { caller, admin } = await startAdminScene(t, { settings, tier: 'user_go' })
    for (let looks = 0; looks < 5; looks++) await admin.read('/jobs')
    assert.equal((await caller.me()).reads.remaining, 1)
  })

  const made = async (fields: object) => granted(await admin.post('/tokens', fields), 201)

  test('a token works until it is revoked, and the audit log names it', async () => {
    const { id, token, ...rest } = await made({ name: 'alice' })
    assert.deepEqual(rest, { name: 'alice', read_only: false, expires_at: null })
    assert.match(token, /^padm_/)
    const alice = await adminOf(parley, token)
    await alice.read('/overview')
    granted(await alice.post('/keys', { account: 'acme', tier: 'user_go' }), 201)
    const [entry] = (await admin.read('/audit?account=acme')).acts
    assert.match(entry.who, /^token alice from .* \(admin API\)$/)

    const created_at = Math.floor(clock.nowMs() / 1000)
    assert.deepEqual((await alice.read('/tokens')).tokens, [{ id, ...rest, created_at, revoked_at: null }])
    refused(await admin.post('/tokens', { name: 'alice' }), 409)
    assert.deepEqual(await admin.run(`/tokens/${id}/revoke`), { id, revoked: true })
    const [revoked] = (await admin.read('/audit')).acts
    assert.deepEqual([revoked.what, revoked.target], ['revoke an admin token', id])
    clock.advance(KNOWN_WITHIN_MS)
    refused(await alice.get('/overview'), 401)
    await made({ name: 'alice' })
  })

  test('a read-only token reads everything but contents and secrets, and changes nothing', async () => {
    const { token } = await made({ name: 'grafana', read_only: true })
    const grafana = await adminOf(parley, token)
    const id = idOf(await (await callerOf(parley, 'user_go', 'seen')).create())
    assert.deepEqual(idsOf(await grafana.read('/jobs')), [id])
    for (const { method, path } of routes) {
      const reads = method === 'GET' && !/content|events|openapi/.test(path) && !path.includes('{')
      if (reads) await grafana.read(path.slice(BASE.length))
      if (method === 'GET') continue
      const answer = await parley.request(path.replaceAll(/\{\w+\}/g, 'x'), {
        method,
        headers: { authorization: `Bearer ${token}` },
      })
      assert.equal(refused(answer, 403).message, 'This admin token is read-only.', `${method} ${path}`)
    }
    await grafana.read(`/jobs/${id}`)
    refused(await grafana.get(`/jobs/${id}/content`), 403)
    refused(await parley.request(`${BASE}/jobs`, {}), 401, { message: 'Admin token is required.' })
    await admin.read(`/jobs/${id}/content`)
  })

  test('a token expires, and bad fields are named', async () => {
    const { token, expires_at } = await made({ name: 'short', expires_days: 0.5 })
    const short = await adminOf(parley, token)
    assert.equal(expires_at, Math.floor(clock.nowMs() / 1000) + 43_200)
    await short.read('/settings')
    clock.skip(12 * HOUR_MS)
    refused(await short.get('/settings'), 401)
    invalid(await admin.post('/tokens', {}), 'name: is required')
    invalid(await admin.post('/tokens', { name: 'a\nb' }), /^name: /)
    refused(await admin.post('/tokens/tok_none/revoke'), 404)
  })

  test('wrong tokens are paced, but never lock out a right one', async () => {
    const { token } = await made({ name: 'bob' })
    clock.advance(60_000)
    const wrong = await adminOf(parley, `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`)
    for (let sent = 0; sent < 10; sent++) refused(await wrong.get('/overview'), 401)
    refused(await wrong.get('/overview'), 429)
    await (await adminOf(parley, token)).read('/overview')
    await admin.read('/overview')
    clock.advance(60_000)
  })
})
