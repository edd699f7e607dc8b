/** Tests the fair order of jobs: an account with many queued jobs delays only its own jobs. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type Received, reply, type Script } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { callerOf, says, startScene } from './caller.ts'
import { completed } from './expect.ts'

const many = (word: string, count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => says(`${word} ${from + index}`))
const said = ({ body }: Received) => String(body.messages.at(-1)?.content)

async function start(t: TestContext, concurrency: number, account: string) {
  const held: (() => void)[] = []
  const script: Script = () => (request, response, server) => {
    held.push(() => reply.echo()(request, response, server))
  }
  const scene = await startScene(t, { settings: { jobs: { concurrency } }, script, account })
  const answerNext = () => held.shift()?.()
  const answerAll = () => {
    scene.models.script = () => undefined
    while (held.length > 0) answerNext()
  }
  return { ...scene, answerNext, answerAll }
}

onEachStore(() => {
  test('8 one account queues 300 jobs: the single job of another account does not wait for them', async (t) => {
    // With only three slots, none is reserved, so the queue alone decides the order.
    const { parley, caller: crowd, models, answerNext, answerAll } = await start(t, 3, 'crowd')
    const single = await callerOf(parley, 'user_max', 'single')
    const ids: string[] = []
    for (let batch = 0; batch < 10; batch++) ids.push(...(await crowd.enqueue(many('crowd', 30, batch * 30))))
    await models.received(3)
    // The queue must have moved before the other account's job arrives.
    for (let done = 1; done <= 8; done++) {
      answerNext()
      await models.received(3 + done)
    }
    const [id] = await single.enqueue([says('single')])
    // The new account's job runs second, after the job that was first in the queue when it arrived.
    const next = ['crowd 11', 'single']
    for (const [index] of next.entries()) {
      answerNext()
      await models.received(12 + index)
    }
    assert.deepEqual(models.requests.slice(11).map(said), next)
    answerAll()
    completed(await single.ended(id))
    for (const one of ids) completed(await crowd.ended(one))
  })

  test('8 while jobs are queued, user_max gets eight slots for each of user_free', async (t) => {
    const { parley, caller: max, models, answerNext, answerAll } = await start(t, 1, 'user_max')
    const free = await callerOf(parley, 'user_free')
    await (await callerOf(parley, 'user_go')).enqueueOne()
    await models.received(1)
    for (let batch = 0; batch < 2; batch++) await free.enqueue(many('free', 2, batch * 2))
    const ids = await max.enqueue(many('max', 30))
    for (let done = 1; done <= 18; done++) {
      answerNext()
      await models.received(1 + done)
    }
    const served = models.requests.slice(1).map(said)
    assert.equal(served.filter((text) => text.startsWith('max')).length, 16)
    assert.equal(served.filter((text) => text.startsWith('free')).length, 2)
    answerAll()
    for (const id of ids) completed(await max.ended(id))
  })

  test('8 an account that arrives late gets its share from then on, and is not owed what it did not use', async (t) => {
    const { parley, caller: early, models, answerNext, answerAll } = await start(t, 1, 'early')
    const late = await callerOf(parley, 'user_max', 'late')
    const ids = [...(await early.enqueue(many('early', 30))), ...(await early.enqueue(many('early', 30, 30)))]
    for (let done = 1; done <= 40; done++) {
      await models.received(done)
      if (done === 21) await late.enqueue(many('late', 30))
      answerNext()
    }
    await models.received(41)
    const served = models.requests.slice(21, 41).map(said)
    assert.equal(served.filter((text) => text.startsWith('late')).length, 10)
    answerAll()
    for (const id of ids) completed(await early.ended(id))
  })
})
