/** Tests how operators find and read jobs: the search, the timeline, contents on demand, and the receipt. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { onEachStore } from '../on-each-store.ts'
import { job, startParley } from '../parley.ts'
import { rowsAre } from './steps.ts'
import { openBrowser, visit } from './visit.ts'

onEachStore(async () => {
  const parley = await startParley({ after })
  const browser = await openBrowser({ after })
  const key = await parley.key('user_max', 'acme')
  const userMessage = (content: string) => [{ role: 'user', content }]

  test('jobs are found by filters in the URL, and the back button works', async (t) => {
    await parley.post('/api/v1/messages', job({ messages: userMessage('[[fail timeout]]') }), key)
    await parley.post('/api/v1/messages', job({ model: 'gpt-auto', messages: userMessage('fine') }), key)
    const page = await visit(t, browser, parley, '/dashboard/jobs')
    const rows = page.locator('tbody tr')
    await rows.first().waitFor()
    const all = await rows.count()
    await page.getByLabel('Status').selectOption('failed')
    await page.waitForURL(/status=failed/)
    await page.getByText('timeout', { exact: true }).waitFor()
    assert.equal(await rows.count(), 1)
    await page.getByLabel('Model').selectOption('gpt-auto')
    await page.getByText('No matching jobs').waitFor()
    await page.goBack()
    await page.getByText('timeout', { exact: true }).waitFor()
    await page.goBack()
    await rowsAre(page, all)
    await page.getByLabel('Account').fill('nobody')
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByText('No matching jobs').waitFor()

    // A reload of the list moves the range to the current time.
    const fromOf = (url: string) => Number(new URL(url).searchParams.get('from'))
    const first = page.waitForRequest((request) => fromOf(request.url()) > 0)
    await page.getByLabel('Created').selectOption('15m')
    const from = fromOf((await first).url())
    const later = page.waitForRequest((request) => fromOf(request.url()) > from)
    await parley.post('/api/v1/messages', job({ messages: userMessage('later') }), key)
    await later
  })

  test('a job shows its timeline, and its contents only on request, which is logged', async (t) => {
    const schema = {
      type: 'object',
      properties: { n: { type: 'integer' } },
      required: ['n'],
      additionalProperties: false,
    }
    const { body } = await parley.post(
      '/api/v1/messages',
      job({
        messages: userMessage('[[bad-json once]] secret words'),
        response_format: { format: 'json', schema },
      }),
      key,
    )
    const id = body.data.job_id
    const page = await visit(t, browser, parley, '/dashboard/jobs')
    await page.getByLabel('Job ID').fill(id)
    await page.keyboard.press('Enter')
    await page.getByText('Settled', { exact: true }).waitFor()
    assert.equal(await page.locator('.timeline li').count(), 5)
    assert.doesNotMatch((await page.textContent('main')) ?? '', /secret words/)
    const looks = () => parley.log.filter(({ what }) => what === 'look at contents').length
    assert.equal(looks(), 0)
    await page.getByRole('button', { name: /Show contents .*logged/ }).click()
    await page.getByText('secret words').waitFor()
    await page.getByRole('heading', { name: 'Repair' }).waitFor()
    for (const words of [
      'which meets the strict rules',
      'unchanged, in the caller',
      'the simulator generates JSON itself',
      'the answer is not JSON',
    ]) {
      await page.getByText(words).first().waitFor()
    }
    assert.equal(looks(), 1)
  })

  test('a failed job shows the target called last, and none that answered', async (t) => {
    const messages = userMessage('[[fail model_error]]')
    const { body } = await parley.post('/api/v1/messages/batches', [job({ messages })], key)
    const [id] = body.data.job_ids
    await parley.ended(id, key)
    const page = await visit(t, browser, parley, `/dashboard/jobs/${id}`)
    await page.getByText('Error', { exact: true }).waitFor()
    assert.equal(await page.getByText('Answered by').count(), 0)
    await page.getByText('Last called').waitFor()
  })

  test('the receipt shows how each server was called, and what an earlier version did not record', async (t) => {
    const messages = [{ role: 'developer', content: 'Be brief.' }, ...userMessage('a number')]
    const { body } = await parley.post(
      '/api/v1/messages',
      job({ messages, response_format: { format: 'json' } }),
      key,
    )
    const page = await visit(t, browser, parley, `/dashboard/jobs/${body.data.job_id}`)
    const call = { kind: 'answer', status: 200, at_ms: 0, ms: 1 }
    const receiptText = async (...calls: readonly Record<string, string>[]) => {
      await page.route('**/content', async (route) => {
        const response = await route.fetch()
        const answer = await response.json()
        answer.data.receipt.calls = calls.map((one) => ({ ...call, ...one }))
        await route.fulfill({ response, json: answer })
      })
      await page.getByRole('button', { name: /Show contents/ }).click()
      const panel = page
        .locator('section')
        .filter({ has: page.getByRole('heading', { name: 'Receipt', exact: true }) })
      const text = (await panel.textContent()) ?? ''
      await page.getByRole('button', { name: 'Hide contents' }).click()
      await page.unroute('**/content')
      return text
    }
    const mapped = { target: 'a/m', roles: 'developer_as_system', json_mode: 'json_object' }
    const one = await receiptText(mapped, mapped)
    assert.match(one, /developer, user – developer was sent as system, in the caller's order/)
    assert.match(one, /json_object: any object/)
    const two = await receiptText(mapped, { target: 'b/n', roles: 'native', json_mode: 'instruction' })
    assert.match(two, /a\/m: developer, user – developer was sent.*; b\/n: developer, user – unchanged/)
    assert.match(two, /a\/m: json_object.*; b\/n: an instruction only/)
    const again = { target: 'a/m', roles: 'no_system', other_format: 'roles', finish_reason: 'length' }
    const three = await receiptText({ target: 'a/m', roles: 'merged_system', kind: 'trouble' }, again)
    assert.match(three, /leading system and developer messages were merged into one system message/)
    assert.match(three, /system and developer messages were merged into the next user message/)
    assert.match(three, /with other roles, because the server rejected the previous call/)
    assert.match(three, /cut off The model reached its length limit \(finish_reason: length\)/)
    assert.equal((await receiptText({ target: 'a/m' })).match(/not recorded/g)?.length, 2)
  })

  test('jobs are found by metadata, which the contents of a job show', async (t) => {
    const metadata = { customer: 'acme inc.', team: 'a' }
    await parley.post('/api/v1/messages', job({ metadata, messages: userMessage('of a customer') }), key)
    const page = await visit(t, browser, parley, '/dashboard/jobs')
    const rows = page.locator('tbody tr')
    await page.getByLabel('Metadata').fill('customer=nobody')
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByText('No matching jobs').waitFor()
    await page.getByLabel('Metadata').fill('customer=acme inc. team=a')
    await page.getByLabel('Status').selectOption('completed')
    await rows.first().waitFor()
    assert.equal(await rows.count(), 1)
    await rows.getByRole('link').click()
    await page.getByRole('button', { name: /Show contents .*logged/ }).click()
    await page.getByRole('heading', { name: 'Metadata' }).waitFor()
    await page.getByText('acme inc.').waitFor()
  })
})
