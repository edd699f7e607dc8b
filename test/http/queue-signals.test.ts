/** Tests what autoscalers of model servers use: `GET /metrics/queue` and the metrics by route. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isModelList, reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Parley } from '../parley.ts'
import { createJobs, metric, ONE_SLOT } from '../support/outage.ts'
import { granted } from './expect.ts'
import { startStage } from './stage.ts'

const ROUTE = 'route="openai/gpt-5-mini"'

async function stateOf(parley: Parley) {
  return granted(await parley.get('/metrics/queue'), 200)
}

onEachStore(() => {
  test('jobs that are queued, and those that wait for a slot, count by route and by upstream', async (t) => {
    const { parley, models, clock } = await startStage(t, { settings: ONE_SLOT, findsConcurrency: true })
    models.script = (request) => (isModelList(request) ? undefined : reply.stall())
    const key = await parley.key()
    assert.deepEqual((await stateOf(parley)).upstreams, {
      openai: { queued: 0, waiting: 0, oldest_age_seconds: 0 },
    })
    const [first] = await createJobs(parley, key, 1)
    assert.ok(first)
    await models.received(1)
    clock.advance(10_000)
    await createJobs(parley, key, 30)
    clock.advance(5_000)
    let state = await stateOf(parley)
    // Parley claims one job more than it has slots, which is on its way to the model server for a moment and not counted.
    while (state.waiting === 0 || state.queued + state.waiting !== 30) {
      t.signal.throwIfAborted()
      state = await stateOf(parley)
    }
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
    const { parley, models } = await startStage(t, { settings: ONE_SLOT, findsConcurrency: true })
    models.script = (request) => (isModelList(request) ? undefined : reply.stall())
    const key = await parley.key()
    await createJobs(parley, key, 1)
    await models.received(1)
    for (const over of [{ priority: 'low' }, { model: 'gpt-5' }]) {
      const bodies = Array.from({ length: 5 }, (_, n) =>
        job({ ...over, messages: [{ role: 'user', content: `${n}` }] }),
      )
      await parley.post('/api/v1/messages/batches', bodies, key)
    }
    let state = await stateOf(parley)
    // At first, one of the jobs is on its way from the queue to the model server, and not counted.
    while (state.queued + state.waiting !== 10) {
      t.signal.throwIfAborted()
      state = await stateOf(parley)
    }
    const { routes } = state
    const five = routes.filter((one: { queued: number; waiting: number }) => one.queued + one.waiting === 5)
    assert.deepEqual(five.map(({ targets }: { targets: string[] }) => targets).sort(), [
      ['openai/gpt-5'],
      ['openai/gpt-5-mini'],
    ])
  })
})
