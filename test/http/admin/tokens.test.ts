/** Tests the admin tokens that operators create: the audit log names them, and they can be read-only and be revoked. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { onEachStore } from '../../on-each-store.ts'
import { job } from '../../parley.ts'
import { completed, granted, invalid, refused } from '../expect.ts'
import { startStage } from '../stage.ts'
import { adminOf, adminRoutesOf, BASE } from './admin.ts'

const KNOWN_WITHIN_MS = 2000
const HOUR_MS = 3_600_000

onEachStore(async () => {
  const { parley, clock } = await startStage({ after })
  const admin = await adminOf(parley)

  const withToken = (token: string, path: string, body?: object) =>
    parley.request(BASE + path, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })

  test('a token works until it is revoked, and the audit log names it', async () => {
    const { id, token, ...rest } = granted(await admin.post('/tokens', { name: 'alice' }), 201)
    assert.deepEqual(rest, { name: 'alice', read_only: false, expires_at: null })
    assert.match(token, /^padm_/)
    granted(await withToken(token, '/overview'), 200)
    granted(await withToken(token, '/keys', { account: 'acme', tier: 'user_go' }), 201)
    const [entry] = granted(await admin.get('/audit?account=acme'), 200).acts
    assert.match(entry.who, /^token alice from .* \(admin API\)$/)

    const listed = granted(await withToken(token, '/tokens'), 200)
    assert.deepEqual(listed.tokens, [
      {
        id,
        name: 'alice',
        read_only: false,
        created_at: Math.floor(clock.nowMs() / 1000),
        expires_at: null,
        revoked_at: null,
      },
    ])
    refused(await admin.post('/tokens', { name: 'alice' }), 409)
    assert.deepEqual(granted(await admin.post(`/tokens/${id}/revoke`), 200), { id, revoked: true })
    const [revoked] = granted(await admin.get('/audit'), 200).acts
    assert.deepEqual([revoked.what, revoked.target], ['revoke an admin token', id])
    clock.advance(KNOWN_WITHIN_MS)
    refused(await withToken(token, '/overview'), 401)
    granted(await admin.post('/tokens', { name: 'alice' }), 201)
  })

  test('a read-only token reads everything but contents and secrets, and changes nothing', async () => {
    const { token } = granted(await admin.post('/tokens', { name: 'grafana', read_only: true }), 201)
    completed(await parley.post('/api/v1/messages', job(), await parley.key('user_go', 'seen')))
    const routes = await adminRoutesOf(parley)
    const [{ job_id: jobId }] = granted(await withToken(token, '/jobs'), 200).jobs
    for (const { method, path } of routes) {
      const reads = method === 'GET' && !/content|events|openapi/.test(path) && !path.includes('{')
      if (reads) granted(await withToken(token, path.slice(BASE.length)), 200)
      if (method === 'GET') continue
      const answer = await parley.request(path.replaceAll(/\{\w+\}/g, 'x'), {
        method,
        headers: { authorization: `Bearer ${token}` },
      })
      assert.equal(refused(answer, 403).message, 'This admin token is read-only.', `${method} ${path}`)
    }
    granted(await withToken(token, `/jobs/${jobId}`), 200)
    refused(await withToken(token, `/jobs/${jobId}/content`), 403)
    assert.equal(refused(await parley.request(`${BASE}/jobs`, {}), 401).message, 'Admin token is required.')
    granted(await admin.get(`/jobs/${jobId}/content`), 200)
  })

  test('a token expires, and bad fields are named', async () => {
    const { token, expires_at } = granted(
      await admin.post('/tokens', { name: 'short', expires_days: 0.5 }),
      201,
    )
    assert.equal(expires_at, Math.floor(clock.nowMs() / 1000) + 43_200)
    granted(await withToken(token, '/settings'), 200)
    clock.skip(12 * HOUR_MS)
    refused(await withToken(token, '/settings'), 401)
    invalid(await admin.post('/tokens', {}), 'name: is required')
    invalid(await admin.post('/tokens', { name: 'a\nb' }), /^name: /)
    refused(await admin.post('/tokens/tok_none/revoke'), 404)
  })

  test('wrong tokens are paced, but never lock out a right one', async () => {
    const { token } = granted(await admin.post('/tokens', { name: 'bob' }), 201)
    clock.advance(60_000)
    const wrong = `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`
    for (let sent = 0; sent < 10; sent++) refused(await withToken(wrong, '/overview'), 401)
    refused(await withToken(wrong, '/overview'), 429)
    granted(await withToken(token, '/overview'), 200)
    granted(await admin.get('/overview'), 200)
    clock.advance(60_000)
  })
})
