/** Tests an account's page: operators suspend the account, cancel its jobs, set caps, and delete it with all its data. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import type { Page } from 'playwright-core'
import { reply, startModelServer } from '../model-server.ts'
import { job, startParley } from '../parley.ts'
import { NO_CAPS } from '../store-contract/fixtures.ts'
import { eventually } from '../support/eventually.ts'
import { openBrowser, visit } from './visit.ts'

const server = await startModelServer({ script: () => reply.stall() })
after(() => server.close())
const settings = { jobs: { concurrency: 1 }, tiers: { user_max: { max_monthly_jobs: 1000 } } }
const parley = await startParley({ after }, { upstream: server.baseUrl, settings })
const browser = await openBrowser({ after })

const create = (key: string, count = 1) =>
  parley.post(
    '/api/v1/messages/batches',
    Array.from({ length: count }, () => job()),
    key,
  )

async function accountOf(name: string) {
  const accounts = await parley.store.listAccounts({ limit: 1000, nowMs: Date.now() })
  return accounts.find((one) => one.name === name)
}

/** A node may learn of a change only seconds later, so the request is repeated. */
async function until(status: number, ask: () => Promise<{ status: number }>): Promise<void> {
  await eventually(ask, (answer) => answer.status === status)
}

async function confirmOpen(page: Page, action: string) {
  await page.getByRole('dialog').getByRole('button', { name: action }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}

test("an account's link opens its page, and that of an unknown account reports that it does not exist", async (t) => {
  await parley.key('user_pro', 'a')
  await parley.key('user_go', 'acme')
  const page = await visit(t, browser, parley, '/dashboard/accounts', { expected: /404/ })
  await page.getByRole('link', { name: 'acme', exact: true }).click()
  await page.getByRole('heading', { name: 'acme', level: 1 }).waitFor()
  assert.equal(await page.getByLabel('Tier of acme').inputValue(), 'user_go')
  await page.goto('/dashboard/accounts/a')
  await page.getByLabel('Tier of a').waitFor()
  await page.goto('/dashboard/accounts/nobody')
  await page.getByText('Account not found').waitFor()
})

test('an account is suspended and resumed', async (t) => {
  const key = await parley.key('user_max', 'stopped')
  const page = await visit(t, browser, parley, '/dashboard/accounts/stopped')
  await page.getByRole('button', { name: 'Suspend account…' }).click()
  await page.getByRole('dialog').getByText('rejected with 403').waitFor()
  await confirmOpen(page, 'Suspend account')
  await page.getByText('suspended since').waitFor()
  await until(403, () => create(key))
  assert.equal((await parley.get('/api/v1/me', key)).body.data.suspended, true)
  await page.goto('/dashboard/accounts')
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'stopped', exact: true }) })
  await row.locator('td .badge', { hasText: 'suspended' }).waitFor()
  await page.goBack()
  await page.getByRole('button', { name: 'Resume account' }).click()
  await page.getByRole('button', { name: 'Suspend account…' }).waitFor()
  assert.equal((await accountOf('stopped'))?.suspendedAtMs, null)
})

test('its webhook is set and cleared; a URL that is not valid is named', async (t) => {
  await parley.key('user_max', 'hooked')
  const page = await visit(t, browser, parley, '/dashboard/accounts/hooked', { expected: /400/ })
  const set = async (url: string) => {
    await page.getByRole('button', { name: 'Change webhook…' }).click()
    await page.getByLabel('URL').fill(url)
    await page.getByRole('dialog').getByRole('button', { name: 'Set webhook' }).click()
  }
  await set('example.com')
  await page.getByRole('alert').getByText('must be an absolute http or https URL').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
  await set('https://example.com/events')
  await page.getByText('https://example.com/events').waitFor()
  assert.equal((await accountOf('hooked'))?.webhookUrl, 'https://example.com/events')
  await set('')
  await page.getByRole('status').getByText('hooked has no webhook').waitFor()
  assert.equal((await accountOf('hooked'))?.webhookUrl, null)
})

test('its jobs are cancelled: queued ones, and running ones on request', async (t) => {
  const key = await parley.key('user_max', 'busy')
  const before = server.requests.length
  const { body } = await create(key, 3)
  await server.received(before + 1)
  const page = await visit(t, browser, parley, '/dashboard/accounts/busy')
  await page.getByRole('button', { name: 'Cancel jobs…' }).click()
  await confirmOpen(page, 'Cancel jobs')
  await page.getByRole('status').getByText('2 jobs were cancelled.').waitFor()
  assert.equal(
    (await parley.get(`/api/v1/messages/${body.data.job_ids[0]}`, key)).body.data.status,
    'assigned',
  )
  await page.getByRole('button', { name: 'Cancel jobs…' }).click()
  await page.getByLabel(/Also cancel running jobs/).check()
  await confirmOpen(page, 'Cancel jobs')
  await page.getByRole('status').getByText('1 job was cancelled.').waitFor()
  for (const id of body.data.job_ids) {
    assert.equal((await parley.ended(id, key)).body.data.error.code, 'cancelled')
  }
  assert.equal(await server.requests[before]?.ended, 'cut')
})

test('an account that is held back is shown with the reason, on the overview and on its own page', async (t) => {
  const models = await startModelServer({ script: () => reply.stall() }, t)
  const small = await startParley(t, { upstream: models.baseUrl, settings: { jobs: { concurrency: 4 } } })
  const key = await small.key('user_max', 'many')
  const jobs = Array.from({ length: 6 }, () => job())
  assert.equal((await small.post('/api/v1/messages/batches', jobs, key)).status, 202)
  await eventually(
    () => small.get('/metrics'),
    ({ text }) => text.includes('parley_accounts_held_back{reason="slots"} 1'),
  )
  const page = await visit(t, browser, small, '/dashboard')
  const panel = page.getByRole('region', { name: 'Accounts held back on this node' })
  await panel.getByRole('row', { name: 'many slots The account uses its full share of the slots' }).waitFor()
  await panel.getByRole('link', { name: 'many' }).click()
  await page.getByText('Held back on this node').waitFor()
  await page.getByText('The account uses its full share of the slots').waitFor()
  models.script = () => undefined
  models.release()
  await page.getByText('Held back on this node').waitFor({ state: 'detached', timeout: 30_000 })
  await page.getByRole('link', { name: 'Overview', exact: true }).click()
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor()
  assert.equal(await panel.count(), 0)
})

test('only the caps that were edited are set, so those that others have set meanwhile stay', async (t) => {
  await parley.key('user_max', 'shared')
  const page = await visit(t, browser, parley, '/dashboard/accounts/shared')
  const button = page.getByRole('button', { name: 'Set caps' })
  await page.getByLabel('Jobs per month', { exact: true }).selectOption('no cap')
  await parley.store.setCaps('shared', { monthlyTokens: 5, openJobs: 6 })
  await button.click()
  await page.getByRole('status').getByText('The caps of shared are set').waitFor()
  const { caps } = (await accountOf('shared')) ?? {}
  assert.deepEqual(caps, { ...NO_CAPS, monthlyJobs: 'none', monthlyTokens: 5, openJobs: 6 })
  await eventually(
    () => page.getByLabel('Open jobs, at most').inputValue(),
    (shown) => shown === '6',
  )
  // The page shows the caps first, and then forgets what was edited.
  await eventually(
    () => button.isDisabled(),
    (isDisabled) => isDisabled,
  )
})

test("caps are a number, none, or the tier's; anything else is rejected with an explanation", async (t) => {
  await parley.key('user_max', 'capped')
  const page = await visit(t, browser, parley, '/dashboard/accounts/capped')
  const caps = async () => (await accountOf('capped'))?.caps
  const set = async () => {
    await page.getByRole('button', { name: 'Set caps' }).click()
  }
  await page.getByLabel('Jobs per month', { exact: true }).selectOption('a number')
  await page.getByLabel('Jobs per month, at most').fill('many')
  await set()
  await page.getByRole('alert').getByText('Enter a whole number of at least 0.').waitFor()
  assert.deepEqual(await caps(), NO_CAPS)
  await page.getByLabel('Jobs per month, at most').fill('0')
  await page.getByLabel('Tokens per month', { exact: true }).selectOption('no cap')
  await page.getByLabel('Open jobs', { exact: true }).selectOption('a number')
  await page.getByLabel('Open jobs, at most').fill('7')
  await page.getByLabel('Stored bytes', { exact: true }).selectOption('no cap')
  await set()
  await page.getByRole('status').getByText('The caps of capped are set').waitFor()
  const quotas = { openJobs: 7, storedBytes: 'none' }
  assert.deepEqual(await caps(), { monthlyJobs: 0, monthlyTokens: 'none', ...quotas })
  await page.getByText(/Now: 0 open jobs and 0 stored bytes\./).waitFor()
  await page.reload()
  assert.equal(await page.getByLabel('Jobs per month, at most').inputValue(), '0')
  await page.getByLabel('Jobs per month', { exact: true }).selectOption('tier default: 1,000')
  await set()
  await page.getByRole('status').getByText('The caps of capped are set').waitFor()
  assert.deepEqual(await caps(), { monthlyJobs: null, monthlyTokens: 'none', ...quotas })
})

test("the tier's cap of costs is shown in full", async (t) => {
  const priced = await startParley(t, {
    upstream: server.baseUrl,
    settings: { currency: 'EUR', tiers: { user_max: { max_monthly_cost: 12.5 } } },
  })
  await priced.key('user_max', 'capped')
  const page = await visit(t, browser, priced, '/dashboard/accounts/capped')
  await page.getByLabel('Cost per month', { exact: true }).selectOption('tier default: 12.50')
})

test('if a proxy gives up before a deletion ends, the page says where its result is', async (t) => {
  await parley.key('user_max', 'large')
  const page = await visit(t, browser, parley, '/dashboard/accounts/large', { expected: /504/ })
  await page.route('**/admin/api/accounts/large?*', (route) => route.fulfill({ status: 504, body: '<html>' }))
  await page.getByRole('button', { name: 'Delete account…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Delete large?' })
  await dialog.getByLabel(/name to confirm/).fill('large')
  await dialog.getByRole('button', { name: 'Delete permanently' }).click()
  await dialog.getByRole('alert').getByText('The audit log shows whether the account was deleted.').waitFor()
})

test('an account is deleted after typing its name, and the page shows that the deletion is in progress', async (t) => {
  const key = await parley.key('user_max', 'leaving')
  const before = server.requests.length
  const { body } = await create(key, 2)
  await server.received(before + 1)
  const page = await visit(t, browser, parley, '/dashboard/accounts/leaving')
  await page.getByRole('button', { name: 'Delete account…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Delete leaving?' })
  const action = dialog.getByRole('button', { name: 'Delete permanently' })
  await dialog.getByLabel(/name to confirm/).fill('leavin')
  assert.equal(await action.isDisabled(), true)
  await dialog.getByLabel(/name to confirm/).press('Enter')
  await dialog.getByLabel(/name to confirm/).fill('leaving')
  await action.click()
  await dialog.getByRole('status').getByText('The account is being deleted.').waitFor()
  await page
    .getByRole('status')
    .getByText('leaving was deleted with 2 jobs, 2 of them cancelled first.')
    .waitFor()
  await page.getByRole('heading', { name: 'Accounts and keys' }).waitFor()
  assert.equal(await accountOf('leaving'), undefined)
  assert.deepEqual(await parley.store.listUsage({ account: 'leaving', limit: 10 }), [])
  assert.equal(await server.requests[before]?.ended, 'cut')
  await until(401, () => parley.get(`/api/v1/messages/${body.data.job_ids[0]}`, key))
})
