/** Tests the actions on jobs from their pages: cancel a job, rerun one job or all jobs of a search, and delete a job. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { job, startParley } from '../parley.ts'
import { confirm } from './steps.ts'
import { openBrowser, visit } from './visit.ts'

const server = await startModelServer({ script: () => reply.stall() })
after(() => server.close())
const parley = await startParley(
  { after },
  { upstream: server.baseUrl, settings: { jobs: { concurrency: 1 } } },
)
const browser = await openBrowser({ after })
const key = await parley.key('user_max', 'acme')

async function createBatch(...words: readonly string[]): Promise<string[]> {
  const jobs = words.map((content) => job({ messages: [{ role: 'user', content }] }))
  const { body } = await parley.post('/api/v1/messages/batches', jobs, key)
  return body.data.job_ids
}

test('a running job is cancelled: the call is cut off, and the page shows how the job ended', async (t) => {
  const [running = '', waiting = ''] = await createBatch('runs', 'waits')
  await server.received(1)
  const page = await visit(t, browser, parley, `/dashboard/jobs/${running}`)
  await page.getByText('assigned', { exact: true }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Delete job…' }).count(), 0)
  await page.getByRole('button', { name: 'Cancel job…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Cancel this job?' })
  await dialog.getByText('is aborted within a').waitFor()
  await dialog.getByRole('button', { name: 'Keep job' }).click()
  assert.equal((await parley.get(`/api/v1/messages/${running}`, key)).body.data.status, 'assigned')
  await confirm(page, 'Cancel job…', 'Cancel job')
  await page.locator('.badge', { hasText: 'failed' }).waitFor()
  await page.locator('.facts').getByText('cancelled', { exact: true }).waitFor()
  await page.getByRole('status').getByText('The job was cancelled.').waitFor()
  assert.equal(await server.requests[0]?.ended, 'cut')
  const { data } = (await parley.get(`/api/v1/messages/${running}`, key)).body
  assert.deepEqual([data.status, data.error.code], ['failed', 'cancelled'])

  // The worker takes the queued job, which is then cancelled while its page is open.
  await server.received(2)
  await page.goto(`/dashboard/jobs/${waiting}`)
  await confirm(page, 'Cancel job…', 'Cancel job')
  await page.getByRole('button', { name: 'Delete job…' }).waitFor()
})

test('a job that ended meanwhile is not cancelled, and the page says so and shows how it ended', async (t) => {
  const [id = ''] = await createBatch('ends meanwhile')
  await server.received(3)
  const page = await visit(t, browser, parley, `/dashboard/jobs/${id}`, { expected: /409/ })
  // Without events, the page does not know that the job has ended before it sends the request.
  await page.route('**/admin/api/events', (route) => route.fulfill({ status: 200, body: '' }))
  await page.reload()
  await page.getByRole('button', { name: 'Cancel job…' }).click()
  const asked = Promise.withResolvers<void>()
  await page.route(`**/admin/api/jobs/${id}`, async (route) => {
    await asked.promise
    await route.continue()
  })
  server.release()
  await parley.ended(id, key)
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel job' }).click()
  asked.resolve()
  await page.getByRole('status').locator('.is-error').waitFor()
  await page.locator('.badge', { hasText: 'completed' }).waitFor()
})

test('a finished job is deleted, and its page reports that it does not exist', async (t) => {
  server.script = () => reply.echo()
  const [id = ''] = await createBatch('to be forgotten')
  await parley.ended(id, key)
  const page = await visit(t, browser, parley, `/dashboard/jobs/${id}`, { expected: /404/ })
  assert.equal(await page.getByRole('button', { name: 'Cancel job…' }).count(), 0)
  await page.getByRole('button', { name: 'Delete job…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Delete this job?' })
  assert.equal(await dialog.getByLabel('Scrub the data from the disk now').isChecked(), true)
  await dialog.getByRole('button', { name: 'Delete job' }).click()
  await page.getByRole('status').getByText('The job was deleted.').waitFor()
  await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor()
  assert.equal((await parley.get(`/api/v1/messages/${id}`, key)).status, 404)
  await page.goto(`/dashboard/jobs/${id}`)
  await page.getByText('Job not found').waitFor()
})

test('a finished job is rerun, and the pages of both jobs link to each other', async (t) => {
  server.script = () => reply.echo()
  const [id = ''] = await createBatch('once more')
  await parley.ended(id, key)
  const page = await visit(t, browser, parley, `/dashboard/jobs/${id}`)
  const dialog = page.getByRole('dialog', { name: 'Rerun this job?' })
  await page.getByRole('button', { name: 'Rerun job…' }).click()
  assert.equal(await dialog.getByLabel('Also send the callback').count(), 0)
  await dialog.getByRole('button', { name: 'Rerun job' }).click()
  await page.getByRole('status').getByText('The job was rerun.').waitFor()
  await page.locator('.facts').getByRole('link', { name: id }).click()
  const made = page.locator('.facts').getByRole('link', { name: /^[0-9a-f-]{36}$/ })
  await page.getByText('Rerun as').waitFor()
  const rerunId = (await made.textContent()) ?? ''
  assert.equal((await parley.ended(rerunId, key)).body.data.status, 'completed')
  await page.getByRole('button', { name: 'Rerun job…' }).click()
  await dialog.getByText('It was rerun before.').waitFor()
  await dialog.getByRole('button', { name: 'Rerun job' }).click()
  await page.getByText('Rerun of').waitFor()
})

test('the failed jobs of a search are rerun, each once', async (t) => {
  server.script = () => reply.status(400)
  const failing = await parley.key('user_max', 'failing')
  const jobs = ['a', 'b'].map((content) => job({ messages: [{ role: 'user', content }] }))
  const { body } = await parley.post('/api/v1/messages/batches', jobs, failing)
  for (const id of body.data.job_ids) await parley.ended(id, failing)
  server.script = () => reply.echo()
  const page = await visit(t, browser, parley, '/dashboard/jobs?account=failing')
  await page.getByRole('link', { name: /…/ }).first().waitFor()
  assert.equal(await page.getByRole('button', { name: 'Rerun these jobs…' }).count(), 0)
  await page.goto('/dashboard/jobs?account=failing&status=failed')
  const rerun = async (result: string) => {
    await confirm(page, 'Rerun these jobs…', 'Rerun jobs')
    await page.getByRole('status').getByText(result).waitFor()
  }
  await page.getByLabel('Metadata').fill('customer=acme')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.getByText('No matching jobs').waitFor()
  // A rerun cannot be limited to a search by metadata.
  assert.equal(await page.getByRole('button', { name: 'Rerun these jobs…' }).count(), 0)
  await page.getByLabel('Metadata').fill('')
  await page.getByRole('button', { name: 'Search' }).click()

  await rerun('2 jobs were rerun')
  await rerun('0 jobs were rerun; 2 skipped')
})

test('contents that were shown while the job ran are called old when it has ended, and can be loaded again', async (t) => {
  const before = server.requests.length
  server.script = () => reply.stall(reply.text('the Amur'))
  const [id = ''] = await createBatch('is being watched')
  await server.received(before + 1)
  const page = await visit(t, browser, parley, `/dashboard/jobs/${id}`)
  const show = page.getByRole('button', { name: /Show contents/ })
  await show.click()
  await page.getByText('No answer yet.').waitFor()
  server.release()
  await page.locator('.badge', { hasText: 'completed' }).waitFor()
  await page.getByText('The job has finished since these contents were loaded.').waitFor()
  assert.equal(await page.getByText('No answer yet.').count(), 0)
  await show.click()
  await page.getByText('the Amur').waitFor()
})
