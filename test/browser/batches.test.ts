/** Tests the pages of batches: the list, a batch's progress and results, and how an operator cancels it. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import test, { after } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { startParley } from '../parley.ts'
import { openaiOf } from '../v1/official-client.ts'
import { submitBatch } from '../v1/submit-batch.ts'
import { openBrowser, visit } from './visit.ts'

const server = await startModelServer({
  script: ({ body }) =>
    reply.stall(JSON.stringify(body).includes('bad') ? reply.status(400) : reply.text('Hi.')),
})
after(() => server.close())
const parley = await startParley({ after }, { upstream: server.baseUrl })
after(() => server.release())
const browser = await openBrowser({ after })
const openai = openaiOf(parley, await parley.key('user_max', 'acme'))

test('a batch shows its progress while it runs, and then its results, which can be downloaded', async (t) => {
  const batch = await submitBatch(openai, ['one', 'two', 'bad'])
  await server.received(3)
  const page = await visit(t, browser, parley, '/dashboard/batches')
  await page.getByRole('link', { name: 'open', exact: true }).click()
  await page.locator('tbody tr').getByText('in progress').waitFor()
  await page.locator('tbody tr a').click()
  await page.getByText('0 answered, 0 failed, of 3').waitFor()
  const running = page.getByRole('table', { name: 'The first lines that run' })
  await running.getByText('say two').waitFor()
  assert.equal(await page.getByRole('progressbar').getAttribute('value'), '0')

  await running.locator('tbody a').first().click()
  await page.locator('.facts').getByText('say one').waitFor()
  await page.locator('.facts').getByRole('link', { name: batch.id }).click()

  server.release()
  await page.getByText('2 answered, 1 failed, of 3').waitFor()
  await page.getByText(/lines a (second|minute)/).waitFor()
  for (const [name, customIds] of [
    [/Output file/, ['say one', 'say two']],
    [/Error file/, ['say bad']],
  ] as const) {
    const download = page.waitForEvent('download')
    await page.getByRole('button', { name }).click()
    const saved = await download
    assert.match(saved.suggestedFilename(), /^batch_.*\.jsonl$/)
    const text = await readFile(await saved.path(), 'utf8')
    const found = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).custom_id)
    assert.deepEqual(found.toSorted(), customIds)
  }
  assert.equal(await page.getByRole('button', { name: 'Cancel batch…' }).count(), 0)
})

test('an operator cancels a batch from its page', async (t) => {
  const batch = await submitBatch(openai, ['three'])
  await server.received(4)
  const page = await visit(t, browser, parley, `/dashboard/batches/${batch.id}`)
  await page.getByRole('button', { name: 'Cancel batch…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Cancel this batch?' })
  await dialog.getByRole('button', { name: 'Cancel batch' }).click()
  await page.getByRole('status').getByText('The batch is being cancelled.').waitFor()
  await page.locator('.badge', { hasText: 'cancelled' }).waitFor()
  await page.getByText('0 answered, 1 failed, of 1').waitFor()
  await page.goto('/dashboard/audit')
  await page.locator(`tbody td.wide a[href="/dashboard/batches/${batch.id}"]`).click()
  await page.getByText('0 answered, 1 failed, of 1').waitFor()
  server.release()
})

test('a batch with wrong lines names them, and one that does not exist is not found', async (t) => {
  const batch = await submitBatch(openai, ['four'], ['no json'])
  const page = await visit(t, browser, parley, `/dashboard/batches/${batch.id}`, { expected: /404/ })
  const problems = page.getByRole('table', { name: 'Problems by line' })
  await problems.getByText('invalid_json_line').waitFor()
  await page.getByText('There are no files').waitFor()
  await page.goto(`/dashboard/batches/${batch.id}0`)
  await page.getByText('Batch not found').waitFor()
})

test('the back button restores the account of the search', async (t) => {
  for (const list of ['batches', 'callbacks']) {
    const page = await visit(t, browser, parley, `/dashboard/${list}`)
    const account = page.getByLabel('Account', { exact: true })
    await account.fill('bob')
    await page.getByRole('button', { name: 'Search' }).click()
    await page.waitForURL(/account=bob/)
    await page.goBack()
    await page.waitForURL((url) => !url.search.includes('account'))
    await page.waitForFunction(() => document.querySelector<HTMLInputElement>('form input')?.value === '')
    assert.equal(await account.inputValue(), '')
  }
})
