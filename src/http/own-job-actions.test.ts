import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { TaskFailed } from '../cpu-pool/pool-thread.ts'
import { HttpError } from './errors.ts'
import type { RequestCpu } from './load-shedding/request-cpu.ts'
import { heldInputCounter } from './own-job-actions.ts'

const REQUEST = { caller: { account: 'acme' } } as FastifyRequest

test('the input of a cancelled call is unknown if no node holds the job, or no thread has time to count it', async () => {
  const counter = (messagesJson: string | null, use: () => Promise<unknown>) =>
    heldInputCounter({ heldMessages: async () => messagesJson }, { use } as unknown as RequestCpu)
  const count = (...given: Parameters<typeof counter>) => counter(...given)(REQUEST, 'job')
  assert.equal(await count('[]', async () => ({ tokens: 12 })), 12)
  assert.equal(await count(null, () => assert.fail('there is nothing to count')), null)
  assert.equal(await count('[]', () => Promise.reject(new HttpError(503, 'The server is busy.'))), null)
  assert.equal(await count('[]', () => Promise.reject(new TaskFailed('The thread ended.'))), null)
  await assert.rejects(
    count('[]', () => Promise.reject(new Error('a bug'))),
    /a bug/,
  )
})
