/** Tests what autoscalers of model servers use: `GET /metrics/queue` and the metrics by route. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isModelList, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import type { Parley } from '../parley.ts'
import { metric, numbered, ONE_SLOT } from '../support/outage.ts'
import { says, startScene } from './caller.ts'
import { granted } from './expect.ts'
import type { StageOptions } from './stage.ts'

const ROUTE = 'route="openai/gpt-5-mini"'

const STALLING: StageOptions = {
  settings: ONE_SLOT,
  findsConcurrency: true,
  script: (request) => (isModelList(request) ? undefined : reply.stall()),
}

async function stateOf(parley: Parley) {
  return granted(await parley.get('/metrics/queue'), 200)
}

/** Resolves with the state when this many jobs are queued or wait for a slot, and at least one waits. */
async function whenKnown(t: { signal: AbortSignal }, parley: Parley, count: number) {
  for (;;) {
    const state = await stateOf(parley)
    if (state.waiting > 0 && state.queued + state.waiting === count) return state
    t.signal.throwIfAborted()
  }
}

onEachStore(() => {
  test('jobs that are queued, and those that wait for a slot, count by route and by upstream', async (t) => {
    const { parley, caller, models, clock } = await startScene(t, STALLING)
    assert.deepEqual((await stateOf(parley)).upstreams, {
      openai: { queued: 0, waiting: 0, oldest_age_seconds: 0 },
    })
    await caller.enqueueOne()
    await models.received(1)
    clock.advance(10_000)
    await caller.enqueue(numbered(30))
    clock.advance(5_000)
    // Parley claims one job more than it has slots, which is on its way to the model server for a moment and not counted.
    const state = await whenKnown(t, parley, 30)
    const { queued, waiting, oldest_age_seconds: age } = state.upstreams.openai
    assert.deepEqual([queued + waiting, waiting, age], [30, 1, 5])
    const route = state.routes.find(
      ({ targets }: { targets: string[] }) => targets[0] === 'openai/gpt-5-mini',
    )
    assert.deepEqual(route, { targets: ['openai/gpt-5-mini'], queued: 29, waiting: 1, oldest_age_seconds: 5 })
    assert.equal(await metric(parley, `parley_route_queue_jobs{${ROUTE}}`), 29)
    assert.equal(await metric(parley, `parley_route_waiting_jobs{${ROUTE}}`), 1)
    assert.equal(await metric(parley, `parley_route_oldest_age_seconds{${ROUTE}}`), 5)
    models.script = () => undefined
    models.release()
    while ((await stateOf(parley)).queued > 0) t.signal.throwIfAborted()
    assert.equal(await metric(parley, `parley_route_queue_jobs{${ROUTE}}`), 0)
  })

  test('jobs of each priority and model are in the figures of their route', async (t) => {
    const { parley, caller, models } = await startScene(t, STALLING)
    await caller.enqueueOne()
    await models.received(1)
    for (const over of [{ priority: 'low' }, { model: 'gpt-5' }]) {
      await caller.enqueue(Array.from({ length: 5 }, (_, n) => says(`${n}`, over)))
    }
    const state = await whenKnown(t, parley, 10)
    const { routes } = state
    const five = routes.filter((one: { queued: number; waiting: number }) => one.queued + one.waiting === 5)
    assert.deepEqual(five.map(({ targets }: { targets: string[] }) => targets).sort(), [
      ['openai/gpt-5'],
      ['openai/gpt-5-mini'],
    ])
  })
})
