/** Tests the admin tokens that operators create: the audit log names them, and they can be read-only and be revoked. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { onEachStore } from '../../on-each-store.ts'
import { callerOf, idOf, idsOf } from '../caller.ts'
import { granted, invalid, refused } from '../expect.ts'
import { startStage } from '../stage.ts'
import { adminOf, adminRoutesOf, BASE } from './admin.ts'

const KNOWN_WITHIN_MS = 2000
const HOUR_MS = 3_600_000

onEachStore(async () => {
  const { parley, clock } = await startStage({ after })
  const admin = await adminOf(parley)

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
    const routes = await adminRoutesOf(parley)
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
    assert.equal(refused(await parley.request(`${BASE}/jobs`, {}), 401).message, 'Admin token is required.')
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
