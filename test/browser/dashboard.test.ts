/** Tests the dashboard's frame: signing in, unknown pages, settings, themes and the audit log. Also tests the page /docs. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import type { Page } from 'playwright-core'
import { ADMIN_TOKEN, type Answer, job, startParley } from '../parley.ts'
import { confirm, rowsAre } from './steps.ts'
import { openBrowser, visit } from './visit.ts'

const parley = await startParley({ after }, { settings: { callbacks: { allow_networks: ['127.0.0.0/8'] } } })
const browser = await openBrowser({ after })
const key = await parley.key('user_max', 'acme')
await parley.key('user_max', 'bob')

const TROUBLE = { model: 'gpt-5-mini', since: 1_795_219_200, reason: 'unreachable', status: null }

/** Replaces the overview that the page gets. The page gets no events, because these would replace the overview again. */
async function changeOverview(
  page: Page,
  change: (data: Answer['body']) => Record<string, unknown>,
): Promise<void> {
  await page.route('**/admin/api/events', (route) => route.fulfill({ status: 200, body: '' }))
  await page.route('**/admin/api/overview', async (route) => {
    const { data, ...rest } = await (await route.fetch()).json()
    await route.fulfill({ json: { ...rest, data: { ...data, ...change(data) } } })
  })
}

test('a wrong token is rejected with an explanation, the right one signs in, and signing out ends the session', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings', { signedIn: false, expected: /401/ })
  await page.getByLabel('Admin token').fill('guess')
  await page.keyboard.press('Enter')
  await page.getByText('This is not the admin token of this server.').waitFor()
  assert.equal(await page.evaluate('sessionStorage.length'), 0)
  await page.getByLabel('Admin token').fill(ADMIN_TOKEN)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
  assert.equal((await page.context().cookies()).length, 0)
  await page.reload()
  await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Admin token').waitFor()
  assert.equal(await page.evaluate('sessionStorage.length'), 0)
})

test('a text that cannot be a token or a key, such as one that a terminal has cut, is called wrong', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard', { signedIn: false })
  await page.getByLabel('Admin token').fill('padm_9Kq…')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').getByText('This is not the admin token of this server.').waitFor()
  const playground = await visit(t, browser, parley, '/dashboard/playground')
  await playground.getByLabel('Or paste a key').fill('prl_9Kq…')
  await playground.getByRole('button', { name: 'Use this key' }).click()
  await playground.getByRole('alert').getByText('The server does not accept this key.').waitFor()
})

test('a token that is no longer accepted leads back to signing in, with the reason', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard', { signedIn: false, expected: /401/ })
  await page.evaluate("sessionStorage.setItem('parley.admin-token', 'of yesterday')")
  await page.reload()
  await page.getByText('is no longer valid').waitFor()
})

test('charts are shown in a browser with an invalid language tag', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings')
  await page.addInitScript(
    "Object.defineProperty(Navigator.prototype, 'language', { get: () => 'en-US@posix' })",
  )
  await page.goto('/dashboard')
  await page.locator('.uplot').first().waitFor()
})

test('a time label at the end of a chart is not clipped', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings')
  await changeOverview(page, (data) => {
    // The charts end with the last sample, which may be some seconds old.
    const end = data.points.at(-1)?.at ?? data.now
    const by = Math.floor(end / 300) * 300 + 1 - end
    const points = data.points.map((point: { at: number }) => ({ ...point, at: point.at + by }))
    return { now: data.now + by, points }
  })
  await page.addInitScript(() => {
    const real = CanvasRenderingContext2D.prototype.fillText
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
      real.call(this, text, x, y, ...rest)
      const end = x + (this.textAlign === 'center' ? this.measureText(text).width / 2 : 0)
      if (end > this.canvas.width) document.documentElement.dataset.cut = text
      if (/^\d\d:\d[05]$/.test(text) && end > this.canvas.width * 0.95)
        document.documentElement.dataset.atEnd = text
    }
  })
  await page.goto('/dashboard')
  await page.waitForFunction(() => document.documentElement.dataset.atEnd !== undefined)
  assert.equal(await page.evaluate(() => document.documentElement.dataset.cut), undefined)
})

test('an unknown job and an unknown page say so', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/jobs/none', { expected: /404/ })
  await page.getByText('Job not found').waitFor()
  await page.goto('/dashboard/nowhere')
  await page.getByText('Page not found').waitFor()
})

test('on a narrow screen the names of settings break only between words', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings', { width: 390 })
  const name = page.getByRole('rowheader', { name: 'prepared_statements' }).locator('code')
  await name.waitFor()
  const lines = await name.evaluate((code) => {
    const byTop = new Map<number, string>()
    const range = document.createRange()
    for (const text of code.childNodes) {
      for (let at = 0; at < (text.textContent ?? '').length; at += 1) {
        range.setStart(text, at)
        range.setEnd(text, at + 1)
        const { top } = range.getBoundingClientRect()
        byTop.set(top, (byTop.get(top) ?? '') + range.toString())
      }
    }
    return [...byTop.values()]
  })
  assert.deepEqual(lines, ['prepared_', 'statements'])
})

test('the settings in force are shown, without secrets', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings')
  const row = page.getByRole('row').filter({ hasText: 'allow_networks' })
  assert.match((await row.textContent()) ?? '', /127\.0\.0\.0\/8/)
  assert.doesNotMatch(await page.content(), new RegExp(ADMIN_TOKEN))
})

test('the theme follows the system until it is switched', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/jobs', { theme: 'dark' })
  const theme = () => page.evaluate('document.documentElement.dataset.theme')
  await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor()
  assert.equal(await theme(), 'dark')
  await page.getByRole('button', { name: 'Switch to light colours' }).click()
  await page.reload()
  await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor()
  assert.equal(await theme(), 'light')
})

test('/docs shows the routes under its policy', async (t) => {
  const page = await visit(t, browser, parley, '/docs')
  await page.getByText('Create a job and wait for its answer').first().waitFor()
  assert.equal(await page.getByText('Ask AI').count(), 0)
  assert.equal(await page.getByText('List accounts, by name').count(), 0)
  await page.goto('/docs/?api=admin')
  await page.getByText('List accounts, by name').first().waitFor()
})

test('on a narrow screen an upstream that is skipped fits, with all that is known of it', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings', { width: 390 })
  const message = `connect ECONNREFUSED ${'model-server.'.repeat(4)}example:8000`
  await changeOverview(page, ({ upstreams }) => ({
    upstreams: upstreams.map((upstream: object) => ({
      ...upstream,
      name: 'the-model-servers-of-the-second-floor',
      running: 1000,
      concurrency_limit: 1000,
      max_concurrency: 10_000,
      skipped_until: Date.now() / 1000 + 3600,
      unavailable: [{ ...TROUBLE, message }],
      limited_accounts: 3,
    })),
  }))
  await page.goto('/dashboard')
  await page.getByText('skipped').waitFor()
  await page.getByText('connect ECONNREFUSED').waitFor()
  assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 390)
})

test('an upstream whose next check is due or in progress is not called healthy', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings')
  let skipped_until: number | null = Date.now() / 1000 - 3
  const unavailable = [{ ...TROUBLE, message: 'ECONNREFUSED' }]
  await changeOverview(page, ({ upstreams }) => ({
    upstreams: upstreams.map((upstream: object) => ({ ...upstream, skipped_until, unavailable })),
  }))
  await page.goto('/dashboard')
  await page.getByText('ECONNREFUSED').waitFor()
  assert.equal(await page.locator('.badge', { hasText: 'skipped' }).count(), 1)
  skipped_until = null
  await page.goto('/dashboard')
  await page.getByText('ECONNREFUSED').waitFor()
  assert.equal(await page.locator('.badge', { hasText: 'unavailable' }).count(), 1)
})

const acts = () => parley.store.listAuditEntries({ limit: 100 })
const admin = (path: string, sent: unknown) =>
  parley.post(`/admin/api${path}`, sent, undefined, { authorization: `Bearer ${ADMIN_TOKEN}` })

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
  await confirm(page, 'Suspend account…', 'Suspend account')
  await page.getByRole('button', { name: 'Resume account' }).waitFor()
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
  assert.equal((await admin(`/jobs/${id}/cancel`, {})).status, 409)
  const caps = { max_monthly_jobs: 7, max_monthly_tokens: 'none' }
  assert.equal((await admin('/accounts/bob/caps', caps)).status, 200)
  const page = await visit(t, browser, parley, '/dashboard/audit')
  const rows = page.locator('tbody tr')
  await rows.first().waitFor()
  const [set = '', refused = ''] = await rows.allTextContents()
  assert.match(set, /set the caps of an account.*bob.*max_monthly_jobs: 7.*set/s)
  assert.match(refused, /cancel a job.*acme.*refused.*it had already finished/s)
  await rows.nth(1).getByRole('link').last().click()
  await page.getByRole('heading', { name: 'Job', level: 1 }).waitFor()
  await page.getByText(id).first().waitFor()
  await page.goBack()
  await page.getByLabel('Account', { exact: true }).fill('bob')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.waitForURL(/account=bob/)
  await rowsAre(page, 1)
  await page.getByRole('row').getByRole('link', { name: 'bob' }).first().click()
  await page.getByRole('heading', { name: 'bob', level: 1 }).waitFor()
})

test('a long log is paged to its end and back', async (t) => {
  for (let left = 60; left > 0; left -= 1) {
    await admin('/accounts/bob/tier', { tier: 'user_max' })
  }
  const page = await visit(t, browser, parley, '/dashboard/audit?account=bob')
  await rowsAre(page, 50)
  await page.getByRole('button', { name: 'Older' }).click()
  await rowsAre(page, 11)
  assert.equal(await page.getByRole('button', { name: 'Older' }).isDisabled(), true)
  await page.getByRole('button', { name: 'Newest' }).click()
  await rowsAre(page, 50)
})
