/**
 * Tests that axe finds no serious fault in the dashboard, and that the dashboard works with a keyboard alone and on a phone's
 * screen.
 */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { ADMIN_TOKEN, job, startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { LONG } from '../support/long-form.ts'
import { openaiOf } from '../v1/official-client.ts'
import { submitBatch } from '../v1/submit-batch.ts'
import { createKey, play, press, rows, showContents } from './steps.ts'
import { openBrowser, visit } from './visit.ts'

const receiver = await startReceiver({
  reply: () => ({ kind: 'answer', status: 500, body: 'x'.repeat(900) }),
})
const account = 'a-customer-with-a-name-of-some-length.example.com'
const settings = { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0] } }
const parley = await startParley({ after }, { settings })
after(() => receiver.close())
const browser = await openBrowser({ after })

const key = await parley.key('user_max', account)
const callback = { callback_url: `${receiver.url}/${'long/'.repeat(30)}` }
const messages = [{ role: 'user', content: `[[bad-json]] ${'W'.repeat(300)}` }]
const wide = job({ messages, response_format: { format: 'json' }, callback })
const { body } = await parley.post('/api/v1/messages/batches', [wide, job()], key)
await receiver.received(1)
const [jobId, settledId] = body.data.job_ids
const stopped = await parley.key('user_free', 'stopped')
await parley.post('/admin/api/accounts/stopped/suspend', {}, stopped, {
  authorization: `Bearer ${ADMIN_TOKEN}`,
})
await parley.post(`/admin/api/accounts/${account}/tier`, { tier: 'user_max' }, key, {
  authorization: `Bearer ${ADMIN_TOKEN}`,
})

const openai = openaiOf(parley, key)
await submitBatch(openai, ['one', 'two'])
const batch = await submitBatch(openai, ['W'.repeat(300)], ['no json', '[]'])

interface Look {
  readonly name: string
  readonly path: string
  readonly signedIn?: boolean
  readonly prepare: (page: Page) => Promise<unknown>
  /** The short form skips a dialog if another dialog has the same form. */
  readonly onlyLong?: true
}
const ALL: readonly Look[] = [
  { name: 'sign-in', path: '', signedIn: false, prepare: (page) => page.getByLabel('Admin token').waitFor() },
  { name: 'overview', path: '', prepare: rows },
  { name: 'jobs', path: '/jobs', prepare: rows },
  { name: 'job', path: `/jobs/${jobId}`, prepare: showContents },
  { name: 'delete a job', path: `/jobs/${settledId}`, prepare: press('Delete job…'), onlyLong: true },
  { name: 'batches', path: '/batches', prepare: rows },
  {
    name: 'batch',
    path: `/batches/${batch.id}`,
    prepare: (page) => page.getByText('What is wrong').waitFor(),
  },
  { name: 'callbacks', path: '/callbacks', prepare: rows },
  { name: 'callback', path: `/callbacks/${jobId}`, prepare: rows },
  { name: 'accounts', path: '/accounts', prepare: rows },
  { name: 'new key', path: '/accounts', prepare: press('Create a key…') },
  { name: 'account', path: `/accounts/${account}`, prepare: rows },
  {
    name: 'suspended account',
    path: '/accounts/stopped',
    prepare: (page) => page.getByText('suspended since').waitFor(),
  },
  { name: 'suspend', path: `/accounts/${account}`, prepare: press('Suspend account…'), onlyLong: true },
  { name: 'cancel jobs', path: `/accounts/${account}`, prepare: press('Cancel jobs…'), onlyLong: true },
  { name: 'delete an account', path: `/accounts/${account}`, prepare: press('Delete account…') },
  { name: 'usage', path: '/usage', prepare: rows },
  { name: 'audit log', path: '/audit', prepare: rows },
  { name: 'your name', path: '/audit', prepare: press('Set your name for the audit log') },
  { name: 'settings', path: '/settings', prepare: rows },
  { name: 'playground', path: '/playground', prepare: play },
]
const LOOKS = ALL.filter(({ onlyLong }) => LONG || !onlyLong)

interface Violation {
  readonly id: string
  readonly impact: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
}

/** The dark theme differs only in its colors, so only axe's rules about colors run again. */
const OPTIONS = {
  light: `{ resultTypes: ['violations'] }`,
  dark: `{ resultTypes: ['violations'], runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } }`,
}

for (const { name, path, prepare, signedIn = true } of LOOKS) {
  test(`axe finds nothing serious in light and dark, nor need 390 pixels be scrolled sideways: ${name}`, async (t) => {
    const page = await visit(t, browser, parley, `/dashboard${path}`, { signedIn })
    await prepare(page)
    await page.evaluate(axe.source)
    for (const theme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: theme })
      await page.waitForFunction((wanted) => document.documentElement.dataset.theme === wanted, theme)
      const violations = (await page.evaluate(
        `axe.run(${OPTIONS[theme]}).then((found) => found.violations)`,
      )) as Violation[]
      const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
      assert.deepEqual(
        serious.map(
          ({ id, nodes }) =>
            `${theme} ${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join('\n')}`,
        ),
        [],
      )
    }
    await page.setViewportSize({ width: 390, height: 844 })
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 390)
    const cut = await page.evaluate(() =>
      [...document.querySelectorAll('main *')]
        .filter(
          (one) => one.getBoundingClientRect().right > 391 && !one.closest('.plot, pre, .visually-hidden'),
        )
        .map((one) => one.outerHTML.slice(0, 120)),
    )
    assert.deepEqual(cut, [])
  })
}

test('by keyboard alone: sign in, skip to the content, open a page, open and close a dialog', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard', { signedIn: false })
  await page.getByLabel('Admin token').waitFor()
  const focused = () =>
    page.evaluate(() => document.activeElement?.textContent?.trim() || document.activeElement?.tagName)
  assert.equal(await focused(), 'INPUT')
  await page.keyboard.type(ADMIN_TOKEN)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.keyboard.press('Tab')
  assert.equal(await focused(), 'Skip to the content')
  // The logo, the theme switch and the button to sign out come before the navigation.
  await tabTo(page, 'Accounts')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Accounts and keys' }).waitFor()
  assert.equal(await focused(), 'Accounts and keys')
  await page.waitForFunction(() => document.title === 'Accounts and keys · Parley')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog', { name: 'Create a key' }).waitFor()
  assert.equal(await page.evaluate(() => document.activeElement?.closest('dialog') !== null), true)
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  assert.equal(await focused(), 'Create a key…')
})

test('Ctrl + Enter sends in the playground, and moving a message keeps the focus on its button', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/playground')
  await createKey(page)
  await page.getByRole('button', { name: 'Add message' }).press('Enter')
  await page.keyboard.type('typed at once')
  await page.getByRole('button', { name: 'Move message 2 up' }).press('Enter')
  assert.equal(await page.getByLabel('Text of message 1').inputValue(), 'typed at once')
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), 'BUTTON')
  await page.getByLabel('Text of message 1').press('Control+Enter')
  await page.getByRole('region', { name: 'the answer' }).waitFor()
  await page
    .getByRole('status')
    .getByText(/The job is completed/)
    .waitFor({ state: 'attached' })
})

async function tabTo(page: Page, words: string): Promise<void> {
  for (let presses = 0; presses < 20; presses += 1) {
    if ((await page.evaluate(() => document.activeElement?.textContent?.trim())) === words) return
    await page.keyboard.press('Tab')
  }
  assert.fail(`${words} was not reached`)
}
