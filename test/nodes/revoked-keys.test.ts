/** Tests that every node rejects a revoked key within 5 seconds, even under load, no matter who has revoked it. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { startModelServer } from '../model-server.ts'
import type { Server } from '../process/server-process.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { type Fleet, startFleet } from './fleet.ts'
import { Load, unhurried } from './load.ts'

const KEYS = LONG ? 200 : 4
const AT_ONCE = LONG ? 8 : 4
const WITHIN_MS = 5000
/** One in this many keys is revoked by a command, which starts a process; the others are revoked by a node. */
const BY_COMMAND = 4
const ADMIN_TOKEN = 'an-admin-token-for-this-test'

interface Key {
  readonly id: string
  readonly key: string
}

test(`${KEYS} keys revoked under load are rejected by both nodes within ${WITHIN_MS / 1000} seconds`, {
  timeout: LONG ? 1_800_000 : 180_000,
}, async (t) => {
  const models = await startModelServer({ script: unhurried, keep: false }, t)
  const fleet = await startFleet(t, { nodes: 0, upstream: models.baseUrl })
  const env = { PARLEY_ADMIN_TOKEN: ADMIN_TOKEN }
  await Promise.all([fleet.add({ env }), fleet.add({ env })])
  const load = new Load(fleet, 4)
  const left = Array.from({ length: KEYS }, (_, index) => index).values()
  const revoked: Key[] = []
  let slowestMs = 0
  const work = async () => {
    for (const index of left) {
      const key = await createKey(fleet, index)
      const tookMs = await revokeAndWait(t, fleet, key, index)
      slowestMs = Math.max(slowestMs, tookMs)
      revoked.push(key)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  assert.ok(slowestMs < WITHIN_MS, `once a key was accepted for ${slowestMs} ms more`)
  for (const { key } of revoked) {
    assert.deepEqual(await statuses(fleet, key), [401, 401], 'a revoked key works again')
  }
  await load.stop()
  await load.ledger.readAll(fleet.caller(fleet.nodes[0]))
  t.diagnostic(
    `${revoked.length} keys, rejected ${Math.round(slowestMs)} ms after the revocation at most; ${load.ledger.size} jobs meanwhile`,
  )
})

async function createKey(fleet: Fleet, index: number): Promise<Key> {
  const response = await admin(fleet.nodes[index % 2], 'keys', {
    account: `account-${index}`,
    tier: 'user_go',
  })
  assert.equal(response.status, 201)
  const { data } = (await response.json()) as { data: Key }
  return data
}

/** Returns how many milliseconds after the revocation the last node rejected the key. */
async function revokeAndWait(t: TestContext, fleet: Fleet, { id, key }: Key, index: number): Promise<number> {
  await eventually(
    () => statuses(fleet, key),
    ([one, two]) => one === 200 && two === 200,
    { signal: t.signal },
  )
  if (index % BY_COMMAND === 0) {
    const { code, stderr } = await fleet.parley(['keys', 'revoke', id])
    assert.equal(code, 0, stderr)
  } else {
    const { status } = await admin(fleet.nodes[index % 2], `keys/${id}/revoke`, {})
    assert.equal(status, 200)
  }
  const revokedMs = performance.now()
  await eventually(
    () => statuses(fleet, key),
    ([one, two]) => one === 401 && two === 401,
    { signal: t.signal },
  )
  return performance.now() - revokedMs
}

/** Returns the status with which each node responds to the key. */
function statuses(fleet: Fleet, key: string): Promise<number[]> {
  return Promise.all(
    fleet.nodes.map(async ({ url }) => {
      const response = await fetch(`${url}/api/v1/me`, { headers: { 'x-api-key': key } })
      await response.arrayBuffer()
      return response.status
    }),
  )
}

function admin(node: Server | undefined, path: string, body: object): Promise<Response> {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' }
  return fetch(`${node?.url}/admin/api/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
}
