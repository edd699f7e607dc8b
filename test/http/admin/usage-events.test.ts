/**
 * Tests `GET /admin/api/usage-events`, which lists what each finished job used. Each job appears exactly once, in whatever
 * order jobs end.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import type { UsageEvent } from '../../../src/admin/usage-events.ts'
import { reply, type Script } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { job } from '../../parley.ts'
import { callerOf, MESSAGES } from '../caller.ts'
import { completed, invalid } from '../expect.ts'
import { type Admin, startAdminScene } from './admin.ts'

/** A job appears in the list this many milliseconds after its creation. */
const VISIBLE_MS = 60_001
const settings = {
  currency: 'EUR',
  models: {
    priced: { price: { input: 2, output: 10 }, targets: [{ upstream: 'openai', model: 'one' }] },
    free: { targets: [{ upstream: 'openai', model: 'free' }] },
  },
}
const priced = (over: object = {}) => job({ model: 'priced', message_cache_ttl: 180, ...over })
const saying = (content: string) => priced({ messages: [{ role: 'user', content }] })
/** Holds the calls of jobs whose message begins with `slow`. */
const script: Script = ({ body }) =>
  String(body.messages[0]?.content).startsWith('slow') ? reply.stall() : undefined

/** Returns a function that reads the next page. */
function feedOf(admin: Admin, filter = '') {
  let after = ''
  return async (limit = 50) => {
    const query = `limit=${limit}${filter}${after && `&after=${after}`}`
    const page = await admin.read(`/usage-events?${query}`)
    after = page.next
    return page as { events: UsageEvent[]; more: boolean; currency?: string }
  }
}

onEachStore(() => {
  test('an event has what the job used, its cost and its metadata', async (t) => {
    const { parley, caller, admin, clock } = await startAdminScene(t, { settings, account: 'acme' })
    const other = await callerOf(parley, 'user_go', 'other')
    const metadata = { order: '7', note: '"}' }
    completed(await caller.post(MESSAGES, priced({ metadata })))
    completed(await caller.post(MESSAGES, priced()))
    completed(await other.create({ model: 'free' }))
    const next = feedOf(admin)
    assert.deepEqual((await next()).events, [])
    clock.advance(VISIBLE_MS)
    const { events, more, currency } = await next()
    assert.deepEqual([more, currency], [false, 'EUR'])
    const [first, cached, free] = events
    const { job_id, created_at, settled_at, ...rest } = first ?? assert.fail('no event')
    assert.ok(created_at <= settled_at)
    // The model server counts characters as tokens: 5 of input, and 11 of the answer.
    const used = { input_tokens: 5, cached_input_tokens: 0, output_tokens: 11, calls: 1, cache_hit: false }
    const of = { account: 'acme', model: 'priced', status: 'completed' }
    assert.deepEqual(rest, { ...of, target: 'openai/one', ...used, cost: 120, metadata })
    assert.deepEqual(
      [cached?.target, cached?.cost, cached?.cache_hit, cached?.metadata],
      [null, 0, true, undefined],
    )
    assert.deepEqual([free?.account, free?.target, free?.cost], ['other', 'openai/free', undefined])
    assert.deepEqual((await next()).events, [])
  })

  test('each job has one event, although later ones end first', async (t) => {
    const { caller, admin, models, clock } = await startAdminScene(t, { settings, script })
    const ids = await caller.enqueue(['slow 1', 'fast 1', 'slow 2', 'fast 2', 'fast 3'].map(saying))
    for (const at of [1, 3, 4]) completed(await caller.ended(ids[at]))
    clock.advance(VISIBLE_MS)
    const next = feedOf(admin)
    const read = async (limit?: number) => (await next(limit)).events.map((event) => event.job_id)
    assert.deepEqual(await read(2), [ids[1]])
    assert.deepEqual(await read(2), [ids[3]])
    assert.deepEqual(await read(), [ids[4]])
    assert.deepEqual(await read(), [])
    await models.received(5)
    models.script = () => undefined
    models.release()
    for (const at of [0, 2]) completed(await caller.ended(ids[at]))
    assert.deepEqual(await read(1), [ids[0]])
    assert.deepEqual(await read(1), [ids[2]])
    assert.deepEqual(await read(), [])
  })

  test('events of one account do not wait for the unfinished jobs of others', async (t) => {
    const { parley, caller, admin, clock } = await startAdminScene(t, { settings, script, account: 'acme' })
    const other = await callerOf(parley, 'user_go', 'other')
    completed(await other.post(MESSAGES, priced()))
    for (let jobs = 0; jobs <= 256; jobs += 30) await caller.enqueue(Array(30).fill(saying('slow')))
    // The slow jobs hold every slot, but this one is answered from the cache.
    completed(await other.post(MESSAGES, priced()))
    clock.advance(VISIBLE_MS)
    for (const [filter, accounts] of [
      ['', ['other']],
      ['&account=acme', []],
      ['&account=other', ['other', 'other']],
    ] as const) {
      const next = feedOf(admin, filter)
      const pages = [await next(200), await next(200)]
      const found = pages.flatMap(({ events }) => events.map((event) => event.account))
      assert.deepEqual([found, pages.at(-1)?.more], [accounts, false], filter)
    }
  })

  test('only a value of `next` is a cursor', async (t) => {
    const { admin } = await startAdminScene(t)
    for (const after of ['x', '', '%00', 'AAAA', 'A'.repeat(9000)]) {
      invalid(await admin.get(`/usage-events?after=${after}`), 'after: must be the `next` of a response')
    }
    assert.equal('currency' in (await admin.read('/usage-events')), false)
  })
})
