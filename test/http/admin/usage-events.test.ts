/**
 * Tests `GET /admin/api/usage-events`, which lists what each finished job used. Each job appears exactly once, in whatever
 * order jobs end.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import type { UsageEvent } from '../../../src/admin/usage-events.ts'
import { reply } from '../../model-server.ts'
import { onEachStore } from '../../on-each-store.ts'
import { job } from '../../parley.ts'
import { completed, enqueued, granted, invalid } from '../expect.ts'
import { type Stage, startStage } from '../stage.ts'
import { adminOf } from './admin.ts'

const MESSAGES = '/api/v1/messages'
const BATCHES = `${MESSAGES}/batches`
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

async function feedOf({ parley }: Stage, filter = '') {
  const admin = await adminOf(parley)
  let after = ''
  return async (limit = 50) => {
    const query = `limit=${limit}${filter}${after && `&after=${after}`}`
    const page = granted(await admin.get(`/usage-events?${query}`), 200)
    after = page.next
    return page as { events: UsageEvent[]; more: boolean; currency?: string }
  }
}

onEachStore(() => {
  test('an event has what the job used, its cost and its metadata', async (t) => {
    const stage = await startStage(t, { settings })
    const { parley, clock } = stage
    const [key, other] = [await parley.key('user_max', 'acme'), await parley.key('user_go', 'other')]
    const metadata = { order: '7', note: '"}' }
    completed(await parley.post(MESSAGES, priced({ metadata }), key))
    completed(await parley.post(MESSAGES, priced(), key))
    completed(await parley.post(MESSAGES, job({ model: 'free' }), other))
    const next = await feedOf(stage)
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
    const stage = await startStage(t, {
      settings,
      script: ({ body }) => (isSlow(body) ? reply.stall() : undefined),
    })
    const { parley, models, clock } = stage
    const key = await parley.key()
    const contents = ['slow 1', 'fast 1', 'slow 2', 'fast 2', 'fast 3']
    const jobs = contents.map((content) => priced({ messages: [{ role: 'user', content }] }))
    const ids = enqueued(await parley.post(BATCHES, jobs, key), 5)
    for (const at of [1, 3, 4]) completed(await parley.ended(ids[at] ?? '', key))
    clock.advance(VISIBLE_MS)
    const next = await feedOf(stage)
    const read = async (limit?: number) => (await next(limit)).events.map((event) => event.job_id)
    assert.deepEqual(await read(2), [ids[1]])
    assert.deepEqual(await read(2), [ids[3]])
    assert.deepEqual(await read(), [ids[4]])
    assert.deepEqual(await read(), [])
    await models.received(5)
    models.script = () => undefined
    models.release()
    for (const at of [0, 2]) completed(await parley.ended(ids[at] ?? '', key))
    assert.deepEqual(await read(1), [ids[0]])
    assert.deepEqual(await read(1), [ids[2]])
    assert.deepEqual(await read(), [])
  })

  test('events of one account do not wait for the unfinished jobs of others', async (t) => {
    const stage = await startStage(t, {
      settings,
      script: ({ body }) => (isSlow(body) ? reply.stall() : undefined),
    })
    const { parley, clock } = stage
    const slow = priced({ messages: [{ role: 'user', content: 'slow' }] })
    const [key, other] = [await parley.key('user_max', 'acme'), await parley.key('user_go', 'other')]
    completed(await parley.post(MESSAGES, priced(), other))
    for (let jobs = 0; jobs <= 256; jobs += 30) {
      enqueued(await parley.post(BATCHES, Array(30).fill(slow), key), 30)
    }
    // The slow jobs hold every slot, but this one is answered from the cache.
    completed(await parley.post(MESSAGES, priced(), other))
    clock.advance(VISIBLE_MS)
    for (const [filter, accounts] of [
      ['', ['other']],
      ['&account=acme', []],
      ['&account=other', ['other', 'other']],
    ] as const) {
      const next = await feedOf(stage, filter)
      const pages = [await next(200), await next(200)]
      const found = pages.flatMap(({ events }) => events.map((event) => event.account))
      assert.deepEqual([found, pages.at(-1)?.more], [accounts, false], filter)
    }
  })

  test('only a value of `next` is a cursor', async (t) => {
    const { parley } = await startStage(t)
    const admin = await adminOf(parley)
    for (const after of ['x', '', '%00', 'AAAA', 'A'.repeat(9000)]) {
      invalid(await admin.get(`/usage-events?after=${after}`), 'after: must be the `next` of a response')
    }
    assert.equal('currency' in granted(await admin.get('/usage-events'), 200), false)
  })
})

function isSlow({ messages }: { readonly messages: readonly { readonly content?: unknown }[] }): boolean {
  return String(messages[0]?.content).startsWith('slow')
}
