/** The audit log, and the operator name in it. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { ADMIN_TOKEN, job, startParley } from '../parley.ts'
import { openBrowser, visit } from './visit.ts'

const parley = await startParley({ after })
const browser = await openBrowser({ after })
const key = await parley.key('user_max', 'acme')
await parley.key('user_max', 'bob')

const acts = () => parley.store.listAuditEntries({ limit: 100 })

test('an empty log says so', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/audit')
  await page.getByText('The audit log is empty').waitFor()
})

test('the name entered at sign-in is in the log, in any script; it can be changed, and signing out forgets it', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/accounts/acme', { signedIn: false })
  await page.getByLabel('Admin token').fill(ADMIN_TOKEN)
  await page.getByLabel('Your name (optional)').fill('x'.repeat(65))
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('The name can have at most 64 characters.').waitFor()
  await page.getByLabel('Your name (optional)').fill('Łucja 李')
  await page.getByRole('button', { name: 'Sign in' }).click()
  const suspend = async () => {
    await page.getByRole('button', { name: 'Suspend account…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Suspend account' }).click()
    await page.getByRole('button', { name: 'Resume account' }).waitFor()
  }
  await suspend()
  assert.equal((await acts())[0]?.who, 'Łucja 李 from 127.0.0.1 (admin API)')
  await page.getByRole('button', { name: /Your name for the audit log: Łucja 李/ }).click()
  await page.getByRole('dialog', { name: 'Your name' }).getByLabel('Name').fill('Bo')
  await page.keyboard.press('Enter')
  await page.getByText('The audit log records your actions as Bo.').waitFor()
  await page.reload()
  await page.getByRole('button', { name: 'Resume account' }).click()
  await page.getByRole('button', { name: 'Suspend account…' }).waitFor()
  assert.equal((await acts())[0]?.who, 'Bo from 127.0.0.1 (admin API)')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Admin token').waitFor()
  assert.equal(await page.evaluate('sessionStorage.length'), 0)
})

test('entries are shown newest first, by account, with their objects; rejected actions are marked', async (t) => {
  const { body } = await parley.post('/api/v1/messages', job(), key)
  const id = body.data.job_id
  const admin = (path: string, sent: unknown) =>
    parley.post(`/admin/api${path}`, sent, undefined, { authorization: `Bearer ${ADMIN_TOKEN}` })
  assert.equal((await admin(`/jobs/${id}/cancel`, {})).status, 409)
  assert.equal(
    (await admin('/accounts/bob/caps', { max_monthly_jobs: 7, max_monthly_tokens: 'none' })).status,
    200,
  )
  const page = await visit(t, browser, parley, '/dashboard/audit')
  const rows = page.locator('tbody tr')
  await rows.first().waitFor()
  assert.match(
    (await rows.nth(0).textContent()) ?? '',
    /set the caps of an account.*bob.*max_monthly_jobs: 7.*set/s,
  )
  assert.match(
    (await rows.nth(1).textContent()) ?? '',
    /cancel a job.*acme.*refused.*it had already finished/s,
  )
  await rows.nth(1).getByRole('link').last().click()
  await page.getByRole('heading', { name: 'Job', level: 1 }).waitFor()
  await page.getByText(id).first().waitFor()
  await page.goBack()
  await page.getByLabel('Account', { exact: true }).fill('bob')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.waitForURL(/account=bob/)
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1)
  await page.getByRole('row').getByRole('link', { name: 'bob' }).first().click()
  await page.getByRole('heading', { name: 'bob', level: 1 }).waitFor()
})

test('a long log is paged to its end and back', async (t) => {
  for (let left = 60; left > 0; left -= 1) {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
    await parley.post('/admin/api/accounts/bob/tier', { tier: 'user_max' }, undefined, headers)
  }
  const page = await visit(t, browser, parley, '/dashboard/audit?account=bob')
  const count = (n: number) =>
    page.waitForFunction((all) => document.querySelectorAll('tbody tr').length === all, n)
  await count(50)
  await page.getByRole('button', { name: 'Older' }).click()
  await count(11)
  assert.equal(await page.getByRole('button', { name: 'Older' }).isDisabled(), true)
  await page.getByRole('button', { name: 'Newest' }).click()
  await count(50)
})
