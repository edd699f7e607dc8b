/**
 * Tests that a job that crashes the process each time it runs fails after `max_attempts` crashes, and that the jobs behind it
 * complete. suspects.test.ts tests jobs that run next to such a job.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type Received, startModelServer } from '../model-server.ts'
import { idsOf } from './caller.ts'
import { installation } from './server-process.ts'

const MAX_ATTEMPTS = 3

const isPoison = ({ text }: Received) => text.includes('poison')

test('a job that kills its process fails after max_attempts, and those behind it finish', async (t) => {
  const models = await startModelServer({}, t)
  const settings = { jobs: { max_attempts: MAX_ATTEMPTS, concurrency: 1 } }
  const place = await installation(t, { upstream: models.baseUrl, settings })
  let server = await place.start()
  const key = await server.firstKey()
  let arrived = Promise.withResolvers<void>()
  models.script = (request) => {
    if (!isPoison(request)) return undefined
    arrived.resolve()
    return () => {}
  }
  const ids = idsOf(await server.caller(key).batch(['one', 'poison', 'two', 'three']))
  for (let deaths = 0; deaths < MAX_ATTEMPTS; deaths++) {
    await arrived.promise
    arrived = Promise.withResolvers()
    await server.crash()
    server = await place.start()
  }
  const caller = server.caller(key)
  const [one = '', poison = '', two = '', three = ''] = ids
  const { body } = await caller.ended(poison)
  assert.deepEqual([body.data?.status, body.data?.result], ['failed', null])
  assert.equal(body.data?.error?.code, 'internal_error')
  assert.match(body.data?.error?.message ?? '', /process .* crashed 3 times/)
  assert.equal(models.requests.filter(isPoison).length, MAX_ATTEMPTS)
  for (const id of [one, two, three]) assert.equal((await caller.ended(id)).body.data?.status, 'completed')
  const later = await caller.single('later')
  assert.equal(later.body.data?.status, 'completed', 'the server is at peace')
})
