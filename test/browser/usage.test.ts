/**
 * Tests the usage page: months, accounts and models with their totals, a chart of one month, and an export of what is shown.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import test, { after } from 'node:test'
import type { Page } from 'playwright-core'
import { systemClock } from '../../src/clock.ts'
import { monthOf } from '../../src/job/month.ts'
import { reply, startModelServer } from '../model-server.ts'
import { job, startParley } from '../parley.ts'
import { rowsAre } from './steps.ts'
import { openBrowser, visit } from './visit.ts'

const DAY_MS = 86_400_000
const server = await startModelServer({ script: () => reply.echo() })
after(() => server.close())
/** The first jobs must be in an earlier month, so the clock is this many days slow at first. */
const back = { days: 40 }
const clock = { ...systemClock, nowMs: () => systemClock.nowMs() - back.days * DAY_MS }
const parley = await startParley({ after }, { upstream: server.baseUrl, clock })
const browser = await openBrowser({ after })
const acme = await parley.key('user_max', 'acme')
const bob = await parley.key('user_max', 'bob')

const earlier = monthOf(clock.nowMs())
await run(acme, 'gpt-5-mini', 'before')
back.days = 0
const now = monthOf(clock.nowMs())
await run(acme, 'gpt-5-mini', 'four')
await run(acme, 'gpt-5-mini', 'seven77')
await run(bob, 'gpt-auto', 'eleven11111')
server.script = () => reply.status(400)
await run(bob, 'gpt-5-mini', 'fails')
server.script = () => reply.echo()

async function run(key: string, model: string, content: string): Promise<void> {
  const one = job({ model, messages: [{ role: 'user', content }] })
  assert.equal((await parley.post('/api/v1/messages', one, key)).status, 200)
}

const rowsOf = async (page: Page) => {
  await page.locator('tbody tr').first().waitFor()
  return page
    .locator('tbody tr')
    .evaluateAll((rows) =>
      rows.map((row) => [...row.children].map((cell) => cell.textContent?.trim().replace(/\s+/g, ' '))),
    )
}

async function downloaded(page: Page) {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download as CSV' }).click(),
  ])
  const lines = (await readFile(await download.path(), 'utf8')).split('\r\n')
  return { name: download.suggestedFilename(), lines }
}

test('each month has totals, newest first, and each account and model has a row', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/usage')
  const rows = await rowsOf(page)
  const stored = await parley.store.listUsage({ limit: 10 })
  assert.equal(stored.length, 4)
  const sum = (read: (one: (typeof stored)[number]) => number) =>
    String(stored.filter(({ month }) => month === now).reduce((all, one) => all + read(one), 0))
  const [total, first] = rows
  assert.equal(rows.length, 6)
  assert.match(total?.[0] ?? '', /total$/)
  assert.deepEqual(total?.slice(2, 4), ['4', '1'])
  assert.deepEqual(total?.slice(6), [
    sum(({ inputTokens }) => inputTokens),
    sum(({ outputTokens }) => outputTokens),
  ])
  assert.match(first?.[0] ?? '', /^acme/)
  assert.deepEqual(first?.slice(1, 4), ['gpt-5-mini', '2', '0'])
})

test('filters are in the URL: one month, one account', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/usage')
  await page.getByLabel('Month').selectOption(earlier)
  await page.waitForURL(new RegExp(`month=${earlier}`))
  await rowsAre(page, 2)
  await page.getByLabel('Account', { exact: true }).fill('bob')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.getByText('No matching usage').waitFor()
  await page.goBack()
  await rowsAre(page, 2)
  assert.equal(await page.getByLabel('Account', { exact: true }).inputValue(), '')
})

test('the bars show tokens or jobs of the newest month, by account or model, with a text alternative', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/usage')
  const figure = page.getByRole('figure')
  const bars = () =>
    figure
      .locator('.bar-list li')
      .evaluateAll((all) => all.map((one) => one.textContent?.replace(/\s+/g, ' ').trim()))
  await figure.getByText('Tokens by account').waitFor()
  assert.match((await bars())[0] ?? '', /^(acme|bob) \d+$/)
  await figure.getByRole('button', { name: 'Jobs' }).click()
  await figure.getByRole('button', { name: 'By model' }).click()
  await figure.getByText('Jobs by model').waitFor()
  assert.deepEqual(await bars(), ['gpt-5-mini 3', 'gpt-auto 1'])
  const widths = await figure
    .locator('.bar-track')
    .evaluateAll((tracks) =>
      tracks.map((track) =>
        [...track.children].map((part) => part.getBoundingClientRect().width / track.clientWidth),
      ),
    )
  assert.deepEqual(
    widths.map((parts) => parts.map((part) => Math.round(part * 3))),
    [
      [2, 1],
      [1, 0],
    ],
  )
})

test('what is shown can be downloaded', async (t) => {
  const page = await visit(t, browser, parley, `/dashboard/usage?account=bob&month=${now}`)
  await rowsOf(page)
  const { name, lines } = await downloaded(page)
  assert.equal(name, `parley-usage-${now}-bob.csv`)
  assert.equal(lines[0], 'month,account,model,jobs,failed_jobs,cache_hits,calls,input_tokens,output_tokens')
  const stored = await parley.store.listUsage({ account: 'bob', month: now, limit: 10 })
  assert.deepEqual(
    lines.slice(1, -1),
    stored.map(({ model, jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens }) =>
      [now, 'bob', model, jobs, failedJobs, cacheHits, calls, inputTokens, outputTokens].join(','),
    ),
  )
  assert.equal(lines.length, 4)
})

test('with prices, the page and its export have the cost of each month, account and model', async (t) => {
  const settings = {
    currency: 'EUR',
    models: { priced: { price: { input: 1000, output: 0 }, targets: [{ upstream: 'openai', model: 'm' }] } },
  }
  const priced = await startParley(t, { upstream: server.baseUrl, settings })
  const key = await priced.key('user_max', 'acme')
  const one = job({ model: 'priced', messages: [{ role: 'user', content: 'seven77' }] })
  assert.equal((await priced.post('/api/v1/messages', one, key)).status, 200)
  const page = await visit(t, browser, priced, '/dashboard/usage')
  const [total, row] = await rowsOf(page)
  assert.equal(total?.at(-1), '0.007')
  assert.equal(row?.at(-1), '0.007')
  assert.match((await page.locator('thead').textContent()) ?? '', /Cost \(EUR\)/)
  const { lines } = await downloaded(page)
  assert.match(lines[0] ?? '', /,output_tokens,cost$/)
  assert.match(lines[1] ?? '', /,7000$/)
})

/** The usage must have more rows than its page loads at once. */
const MODELS = 101
const ACCOUNTS = 10

test('the rest of a long list can be loaded, and until then its totals are marked as partial', async (t) => {
  const names = Array.from({ length: MODELS }, (_, index) => `model-${index}`)
  const targets = [{ upstream: 'openai', model: 'any' }]
  const models = Object.fromEntries(names.map((name) => [name, { targets }]))
  const settings = { models, tiers: { user_max: { max_batch_jobs: MODELS } } }
  const long = await startParley(t, { settings })
  for (let account = 0; account < ACCOUNTS; account += 1) {
    const key = await long.key('user_max', `account-${account}`)
    const jobs = names.map((model) => job({ model }))
    const { body } = await long.post('/api/v1/messages/batches', jobs, key)
    const [last, ...others] = body.data.job_ids
    await long.get(`/api/v1/messages?ids=${others}&wait=50&wait_for=all`, key)
    await long.ended(last, key)
  }
  const page = await visit(t, browser, long, '/dashboard/usage')
  await page.getByText('Showing the first 1000 rows').waitFor()
  const total = page.locator('.month')
  assert.match((await total.textContent()) ?? '', /total so far/)
  // The chart shows the nine longest bars, and one for the rest.
  await page.getByRole('button', { name: 'By model' }).click()
  await page.getByText('92 others').waitFor()
  await page.getByRole('button', { name: 'Load more' }).click()
  await page.getByText('total so far').waitFor({ state: 'detached' })
  assert.equal(await total.locator('.number').first().textContent(), '1,010')
  assert.equal(await page.getByRole('button', { name: 'Load more' }).count(), 0)
})
