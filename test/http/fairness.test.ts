/** Tests the fair order of jobs: an account with many queued jobs delays only its own jobs. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type Received, reply, type Script } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job } from '../parley.ts'
import { completed, enqueued } from './expect.ts'
import { startStage } from './stage.ts'

const BATCHES = '/api/v1/messages/batches'
const saying = (content: string) => job({ messages: [{ role: 'user', content }] })
const said = ({ body }: Received) => String(body.messages.at(-1)?.content)

/** Returns a script that holds requests, and a function that answers the oldest of them. */
function oneByOne(): { script: Script; answerNext: () => boolean } {
  const held: (() => void)[] = []
  return {
    script: () => (request, response, server) => {
      held.push(() => reply.echo()(request, response, server))
    },
    answerNext: () => {
      const answer = held.shift()
      answer?.()
      return answer !== undefined
    },
  }
}

onEachStore(() => {
  test('8 one account queues 300 jobs: the single job of another account does not wait for them', async (t) => {
    const { script, answerNext } = oneByOne()
    // With only three slots, none is reserved, so the queue alone decides the order.
    const { parley, models } = await startStage(t, { settings: { jobs: { concurrency: 3 } }, script })
    const [crowd, single] = [await parley.key('user_max', 'crowd'), await parley.key('user_max', 'single')]
    const ids: string[] = []
    for (let batch = 0; batch < 10; batch++) {
      const jobs = Array.from({ length: 30 }, (_, index) => saying(`crowd ${batch * 30 + index}`))
      ids.push(...enqueued(await parley.post(BATCHES, jobs, crowd), 30))
    }
    await models.received(3)
    // The queue has already moved when the other account's job arrives.
    for (let done = 1; done <= 8; done++) {
      answerNext()
      await models.received(3 + done)
    }
    const [id = ''] = enqueued(await parley.post(BATCHES, [saying('single')], single), 1)
    // The new account's job runs second, after the job that was first in the queue when it arrived.
    const next = ['crowd 11', 'single']
    for (const [index] of next.entries()) {
      answerNext()
      await models.received(12 + index)
    }
    assert.deepEqual(models.requests.slice(11).map(said), next)
    models.script = () => undefined
    while (answerNext());
    completed(await parley.ended(id, single))
    for (const one of ids) completed(await parley.ended(one, crowd))
  })

  test('8 while jobs are queued, user_max gets eight slots for each of user_free', async (t) => {
    const { script, answerNext } = oneByOne()
    const { parley, models } = await startStage(t, { settings: { jobs: { concurrency: 1 } }, script })
    const [max, free] = [await parley.key('user_max'), await parley.key('user_free')]
    enqueued(await parley.post(BATCHES, [saying('first')], await parley.key('user_go')), 1)
    await models.received(1)
    for (let batch = 0; batch < 2; batch++) {
      enqueued(await parley.post(BATCHES, [saying(`free ${batch}`), saying(`free again ${batch}`)], free), 2)
    }
    const jobs = Array.from({ length: 30 }, (_, index) => saying(`max ${index}`))
    const ids = enqueued(await parley.post(BATCHES, jobs, max), 30)
    for (let done = 1; done <= 18; done++) {
      answerNext()
      await models.received(1 + done)
    }
    const served = models.requests.slice(1).map(said)
    assert.equal(served.filter((text) => text.startsWith('max')).length, 16)
    assert.equal(served.filter((text) => text.startsWith('free')).length, 2)
    models.script = () => undefined
    while (answerNext());
    for (const id of ids) completed(await parley.ended(id, max))
  })

  test('8 an account that arrives late gets its share from then on, and is not owed what it did not use', async (t) => {
    const { script, answerNext } = oneByOne()
    const { parley, models } = await startStage(t, { settings: { jobs: { concurrency: 1 } }, script })
    const [early, late] = [await parley.key('user_max', 'early'), await parley.key('user_max', 'late')]
    const batch = (name: string) => Array.from({ length: 30 }, (_, index) => saying(`${name} ${index}`))
    const ids = enqueued(await parley.post(BATCHES, batch('early'), early), 30)
    ids.push(...enqueued(await parley.post(BATCHES, batch('early too'), early), 30))
    for (let done = 1; done <= 20; done++) {
      await models.received(done)
      answerNext()
    }
    await models.received(21)
    enqueued(await parley.post(BATCHES, batch('late'), late), 30)
    for (let done = 21; done <= 40; done++) {
      await models.received(done)
      answerNext()
    }
    await models.received(41)
    const served = models.requests.slice(21, 41).map(said)
    assert.equal(served.filter((text) => text.startsWith('late')).length, 10)
    models.script = () => undefined
    while (answerNext());
    for (const id of ids) completed(await parley.ended(id, early))
  })
})
