/**
 * Tests the routes whose requests use something up: a cancellation, a deletion or a rerun. This file creates a new job, batch
 * or account for each request.
 */
import { reply } from '../../model-server.ts'
import { job } from '../../parley.ts'
import { openaiOf } from '../../v1/official-client.ts'
import { submitBatch } from '../../v1/submit-batch.ts'
import { BATCHES, MESSAGES, says } from '../caller.ts'
import { granted } from '../expect.ts'
import type { Stage } from '../stage.ts'
import type { Route } from './document.ts'
import type { Sent, Walker } from './walker.ts'

/** A deletion waits this long, so that every node has applied the suspension. */
const DELETION_WAITS_MS = 3000

export function takenAway(
  { parley, models, clock }: Pick<Stage, 'parley' | 'models' | 'clock'>,
  key: string,
  expectOf: Walker['expectOf'],
) {
  let made = 0

  async function openJob(): Promise<string> {
    const { script } = models
    models.script = () => reply.stall()
    let asked = models.requests.length
    made += 1
    const content = `stalls ${made}`
    const created = await parley.post(BATCHES, [says(content)], key)
    // Calls of earlier jobs may arrive in the meantime, so the test recognizes the call by its content.
    const isCalled = () => models.requests.some(({ text }) => text.includes(content))
    while (!isCalled()) await models.received(++asked)
    models.script = script
    return granted(created, 202).job_ids[0]
  }

  async function endedJob(): Promise<string> {
    return granted(await parley.post(MESSAGES, job(), key), 200).job_id
  }

  async function newAccount(): Promise<string> {
    made += 1
    await parley.key('user_go', `to-be-deleted-${made}`)
    return `to-be-deleted-${made}`
  }

  async function openBatch(): Promise<string> {
    const { script } = models
    models.script = () => reply.stall()
    const { id } = await submitBatch(openaiOf(parley, key), [`line ${made}`])
    models.script = script
    return id
  }

  const makers: Readonly<Record<string, () => Promise<Record<string, string>>>> = {
    'POST /api/v1/messages/{jobId}/cancel': async () => ({ jobId: await openJob() }),
    'DELETE /api/v1/messages/{jobId}': async () => ({ jobId: await endedJob() }),
    'POST /admin/api/jobs/{jobId}/cancel': async () => ({ jobId: await openJob() }),
    'POST /admin/api/jobs/{jobId}/rerun': async () => ({ jobId: await endedJob() }),
    'POST /admin/api/batches/{batchId}/cancel': async () => ({ batchId: await openBatch() }),
    'DELETE /admin/api/jobs/{jobId}': async () => ({ jobId: await endedJob() }),
    'DELETE /admin/api/accounts/{name}': async () => ({ name: await newAccount() }),
  }

  /**
   * Creates what the request ends or deletes, then does the same as `expectOf`. The clock advances past the time that an
   * account's deletion waits.
   */
  async function done(route: Route, statuses: readonly number[], sent: Sent): Promise<void> {
    const parameters = await makers[route.name]?.()
    let isDone = false
    const answered = expectOf(route, statuses, { ...sent, ...(parameters && { parameters }) }).finally(() => {
      isDone = true
    })
    while (parameters?.name !== undefined && !isDone) {
      await Promise.race([answered, clock.timerSet((ms) => ms === DELETION_WAITS_MS)])
      if (!isDone) clock.advance(DELETION_WAITS_MS)
    }
    await answered.catch(async (error) => {
      const state = parameters?.jobId === undefined ? '' : await stateOf(parameters.jobId)
      throw new Error(`${error.message}\n${state}`, { cause: error })
    })
  }

  /**
   * The text explains failures: it contains what the caller reads of the job, the last ten requests to the model server, and
   * its connection errors.
   */
  async function stateOf(jobId: string): Promise<string> {
    const { text } = await parley.get(`${MESSAGES}/${jobId}`, key)
    const last = models.requests.slice(-10).map((request) => request.text.slice(0, 200))
    return [text, ...last, ...models.connectionErrors].join('\n')
  }

  return { done, openJob, endedJob }
}
