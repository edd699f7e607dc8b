/** Usage with more rows than its page loads at once. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { job, startParley } from '../parley.ts'
import { openBrowser, visit } from './visit.ts'

const MODELS = 101
const ACCOUNTS = 10

test('the rest of a long list can be loaded, and until then its totals are marked as partial', async (t) => {
  const names = Array.from({ length: MODELS }, (_, index) => `model-${index}`)
  const targets = [{ upstream: 'openai', model: 'any' }]
  const models = Object.fromEntries(names.map((name) => [name, { targets }]))
  const parley = await startParley(t, {
    settings: { models, tiers: { user_max: { max_batch_jobs: MODELS } } },
  })
  for (let account = 0; account < ACCOUNTS; account += 1) {
    const key = await parley.key('user_max', `account-${account}`)
    const jobs = names.map((model) => job({ model }))
    const { body } = await parley.post('/api/v1/messages/batches', jobs, key)
    for (const id of body.data.job_ids) await parley.ended(id, key)
  }
  const browser = await openBrowser(t)
  const page = await visit(t, browser, parley, '/dashboard/usage')
  await page.getByText('Showing the first 1000 rows').waitFor()
  const total = page.locator('.month')
  assert.match((await total.textContent()) ?? '', /total so far/)
  // The nine longest bars, and one for the rest.
  await page.getByRole('button', { name: 'By model' }).click()
  await page.getByText('92 others').waitFor()
  await page.getByRole('button', { name: 'Load more' }).click()
  await page.getByText('total so far').waitFor({ state: 'detached' })
  assert.equal(await total.locator('.number').first().textContent(), '1,010')
  assert.equal(await page.getByRole('button', { name: 'Load more' }).count(), 0)
})
