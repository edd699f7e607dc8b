/**
 * Tests what operators change in the dashboard: they replay callbacks, create and revoke keys, and change tiers and secrets.
 */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { onEachStore } from '../on-each-store.ts'
import { job, startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { confirm, rowsAre } from './steps.ts'
import { openBrowser, visit } from './visit.ts'

onEachStore(async () => {
  const receiver = await startReceiver()
  const parley = await startParley(
    { after },
    { settings: { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0] } } },
  )
  after(() => receiver.close())
  const browser = await openBrowser({ after })
  const key = await parley.key('user_max', 'acme')
  const userMessage = (content: string) => [{ role: 'user', content }]

  test('a failed callback is shown with its attempts and replayed; then all failed ones are', async (t) => {
    receiver.script(
      ...Array.from({ length: 3 }, () => ({ kind: 'answer', status: 500, body: 'not today' }) as const),
    )
    const callback = { callback_url: receiver.url, callback_payload: { order: 7 } }
    const jobs = ['one', 'two', 'three'].map((words) => job({ messages: userMessage(words), callback }))
    const { body } = await parley.post('/api/v1/messages/batches', jobs, key)
    const [first] = body.data.job_ids
    await receiver.received(3)
    const page = await visit(t, browser, parley, '/dashboard/callbacks')
    await rowsAre(page, 3)
    await page.goto(`/dashboard/callbacks/${first}`)
    await page.getByText('not today').waitFor()
    await page.getByRole('button', { name: /Replay the callback/ }).click()
    await receiver.received(4)
    await page.getByText('HTTP 200').waitFor()
    await page.getByRole('link', { name: 'Callbacks', exact: true }).last().click()
    await confirm(page, 'Replay all failed…', 'Replay all')
    await page.getByText('2 callbacks are due now.').waitFor()
    await receiver.received(6)
    await page.getByText('No callbacks have failed').waitFor()
    await page.getByRole('link', { name: 'delivered' }).click()
    await rowsAre(page, 3)
  })

  test('a key is created, shown once, works, and is revoked; tiers and secrets change', async (t) => {
    const page = await visit(t, browser, parley, '/dashboard/accounts', { expected: /400/ })
    await page.getByRole('button', { name: 'Create a key…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Account').fill('not a name!')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByRole('alert').waitFor()
    await dialog.getByLabel('Account').fill('newcomer')
    await dialog.getByLabel('Tier').selectOption('user_go')
    await dialog.getByLabel('Label (optional)').fill('first of newcomer')
    await dialog.getByRole('button', { name: 'Create' }).click()
    const made = (await dialog.locator('[data-key]').textContent()) ?? ''
    assert.match(made, /^prl_\w{38}$/)
    const lines = (shown: Element) => {
      const range = document.createRange()
      range.selectNodeContents(shown)
      return range.getClientRects().length
    }
    assert.equal(await dialog.locator('[data-key]').evaluate(lines), 1)
    await dialog.getByRole('button', { name: 'Copy the key' }).click()
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), made)
    await dialog.getByRole('button', { name: 'I have saved it' }).click()
    assert.equal((await parley.get('/api/v1/me', made)).body.data.tier, 'user_go')
    assert.doesNotMatch(await page.content(), /prl_/)
    await page.getByText('first of newcomer').waitFor()

    await page.getByLabel('Tier of newcomer').selectOption('user_pro')
    await page.getByText('newcomer now has the tier user_pro').waitFor()
    await page.getByRole('button', { name: 'Signing secret of newcomer' }).click()
    await dialog.getByRole('button', { name: 'Show (logged)' }).click()
    const secret = await dialog.locator('code').textContent()
    await dialog.getByRole('button', { name: 'Rotate…' }).click()
    await dialog.getByRole('button', { name: 'Rotate now' }).click()
    await page.waitForFunction((old) => document.querySelector('dialog code')?.textContent !== old, secret)
    await dialog.getByRole('button', { name: 'Close' }).click()

    await page.getByRole('link', { name: 'newcomer', exact: true }).click()
    await page.getByRole('heading', { name: 'Keys of newcomer' }).waitFor()
    await confirm(page, /^Rotate key_/, 'Rotate')
    const rotated = (await dialog.locator('[data-key]').textContent()) ?? ''
    await dialog.getByRole('button', { name: 'I have saved it' }).click()
    for (const key of [made, rotated])
      assert.equal((await parley.get('/api/v1/me', key)).body.data.account, 'newcomer')
    await page
      .getByRole('button', { name: /^Revoke key_/ })
      .first()
      .click()
    await dialog.getByRole('button', { name: 'Revoke' }).click()
    await page.getByText('revoked', { exact: true }).waitFor()
    const keys = await parley.store.listKeys()
    const revoked = keys.filter((one) => one.account === 'newcomer').map((one) => one.revokedAtMs !== null)
    assert.deepEqual(revoked.sort(), [false, true])
  })

  test('from a page of keys whose last one was deleted meanwhile, the newest keys can be shown', async (t) => {
    for (let count = 0; count < 101; count++) await parley.key('user_go', 'gone')
    const page = await visit(t, browser, parley, '/dashboard/accounts', { expected: /400/ })
    const older = page.getByRole('button', { name: 'Older' })
    await older.waitFor()
    await parley.store.deleteAccount('gone', 'deleted-1')
    await older.click()
    await page.getByText('this key does not exist any more').waitFor()
    await page.getByRole('button', { name: 'Newest' }).click()
    await page.getByRole('cell', { name: 'acme' }).first().waitFor()
  })
})
