/** The dashboard's frame: signing in, unknown pages, settings, themes; and /docs beside it. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { ADMIN_TOKEN, startParley } from '../parley.ts'
import { openBrowser, visit } from './visit.ts'

const parley = await startParley({ after }, { settings: { callbacks: { allow_networks: ['127.0.0.0/8'] } } })
const browser = await openBrowser({ after })

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
  const page = await visit(t, browser, parley, '/dashboard/settings', { expected: /ERR_FAILED/ })
  await page.route('**/admin/api/events', (route) => route.abort())
  await page.route('**/admin/api/overview', async (route) => {
    const response = await route.fetch()
    const answer = await response.json()
    // The charts end with the last sample, which may be some seconds old.
    const end = answer.data.points.at(-1)?.at ?? answer.data.now
    const fullMinutes = Math.floor(end / 300) * 300 + 1
    const by = fullMinutes - end
    const points = answer.data.points.map((point: { at: number }) => ({ ...point, at: point.at + by }))
    await route.fulfill({
      response,
      json: { ...answer, data: { ...answer.data, now: answer.data.now + by, points } },
    })
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
  await page.route('**/admin/api/events', (route) => route.fulfill({ status: 200, body: '' }))
  await page.route('**/admin/api/overview', async (route) => {
    const json = await (await route.fetch()).json()
    const message = `connect ECONNREFUSED ${'model-server.'.repeat(4)}example:8000`
    json.data.upstreams = json.data.upstreams.map((upstream: object) => ({
      ...upstream,
      name: 'the-model-servers-of-the-second-floor',
      running: 1000,
      concurrency_limit: 1000,
      max_concurrency: 10_000,
      skipped_until: Date.now() / 1000 + 3600,
      unavailable: [{ model: 'gpt-5-mini', since: 1795219200, reason: 'unreachable', status: null, message }],
      limited_accounts: 3,
    }))
    await route.fulfill({ json })
  })
  await page.goto('/dashboard')
  await page.getByText('skipped').waitFor()
  await page.getByText('connect ECONNREFUSED').waitFor()
  assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 390)
})

test('an upstream whose next check is due or in progress is not called healthy', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings')
  await page.route('**/admin/api/events', (route) => route.fulfill({ status: 200, body: '' }))
  let skippedUntil: number | null = Date.now() / 1000 - 3
  await page.route('**/admin/api/overview', async (route) => {
    const json = await (await route.fetch()).json()
    const trouble = { since: 1795219200, reason: 'unreachable', status: null, message: 'ECONNREFUSED' }
    json.data.upstreams = json.data.upstreams.map((upstream: object) => ({
      ...upstream,
      skipped_until: skippedUntil,
      unavailable: [{ model: 'gpt-5-mini', ...trouble }],
    }))
    await route.fulfill({ json })
  })
  await page.goto('/dashboard')
  await page.getByText('ECONNREFUSED').waitFor()
  assert.equal(await page.locator('.badge', { hasText: 'skipped' }).count(), 1)
  skippedUntil = null
  await page.goto('/dashboard')
  await page.getByText('ECONNREFUSED').waitFor()
  assert.equal(await page.locator('.badge', { hasText: 'unavailable' }).count(), 1)
})
