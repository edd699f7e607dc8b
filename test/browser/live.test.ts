/** Tests the live overview: figures update by themselves, the page reports a lost connection, and updates continue after it. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import type { Page, Route } from 'playwright-core'
import { startCuttingProxy } from '../nodes/cutting-proxy.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, job, startParley } from '../parley.ts'
import { openBrowser, visit } from './visit.ts'

/**
 * Replaces the event stream inside the page. With `once`, only the first stream is replaced, by one that falls silent. Without
 * `once`, every stream is replaced by one that sends only keep-alives.
 */
function imitateEvents({ once }: { readonly once: boolean }): void {
  const real = window.fetch
  window.fetch = async (input, init) => {
    if (!String(input).endsWith('/events')) return await real(input, init)
    if (once) window.fetch = real
    const alive = new TextEncoder().encode(': alive\n\n')
    const body = new ReadableStream({
      start: (controller) => {
        controller.enqueue(alive)
        sessionStorage.setItem('opened', String(Date.now()))
        if (!once) setInterval(() => controller.enqueue(alive), 1000)
        init?.signal?.addEventListener('abort', () => controller.error(init.signal?.reason))
      },
    })
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  }
}

onEachStore(async () => {
  const parley = await startParley({ after })
  const browser = await openBrowser({ after })
  const key = await parley.key('user_max', 'acme')
  const userMessage = (content: string) => [{ role: 'user', content }]

  test('an empty server says so, and points to the playground', async (t) => {
    const page = await visit(t, browser, parley, '/dashboard')
    await page.getByText('No jobs have run here yet').waitFor()
    await page.getByRole('main').getByRole('link', { name: 'playground' }).click()
    await page.getByRole('heading', { name: 'Playground', level: 1 }).waitFor()
  })

  test('the overview is updated by events, and recovers after a lost connection', async (t) => {
    const page = await visit(t, browser, parley, '/dashboard/jobs', { expected: /ERR_FAILED/ })
    let isCut = true
    await page.route('**/admin/api/events', (route) => (isCut ? route.abort() : route.continue()))
    await page.goto('/dashboard')
    await page.getByText('Reconnecting', { exact: true }).waitFor()
    isCut = false
    await page.getByText('Live', { exact: true }).waitFor()
    await parley.post('/api/v1/messages', job({ messages: userMessage('count me') }), key)
    const ended = page.locator('.figure').filter({ hasText: 'Finished' }).locator('.figure-value')
    await page.waitForFunction((figure) => figure?.textContent !== '0', await ended.elementHandle())
    const outcomes = page.getByRole('figure', { name: /Jobs by outcome/ })
    await outcomes.getByRole('button', { name: 'Jobs by outcome as a table' }).click()
    await outcomes.getByRole('columnheader', { name: 'completed' }).waitFor()
  })

  async function pointWithAJob(): Promise<void> {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
    const { body } = await fetch(`${parley.url}/admin/api/events`, { headers })
    let seen = ''
    for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      seen += piece
      if (seen.includes('"completed":')) return
    }
  }

  const ended = (page: Page) =>
    page.locator('.figure').filter({ hasText: 'Finished' }).locator('.figure-value')
  const countsTo = async (page: Page, jobs: number) =>
    await ended(page).getByText(String(jobs), { exact: true }).waitFor()

  test('a stream that breaks is reported as lost, and nothing that happened meanwhile is missing', async (t) => {
    const line = await startCuttingProxy(parley.url)
    t.after(() => line.close())
    const page = await visit(t, browser, line, '/dashboard', { expected: /ERR_/ })
    await page.getByText('Live', { exact: true }).waitFor()
    const before = Number(await ended(page).textContent())
    await parley.post('/api/v1/messages', job({ messages: userMessage('while it holds') }), key)
    await countsTo(page, before + 1)
    line.shut()
    await page.getByText('Reconnecting', { exact: true }).waitFor()
    await page.getByText('The connection was lost. Reconnecting.').waitFor({ state: 'attached' })
    const point = pointWithAJob()
    await parley.post('/api/v1/messages', job({ messages: userMessage('while it is broken') }), key)
    await point
    line.open()
    await page.getByText('Live', { exact: true }).waitFor()
    await page.getByText('The connection is restored.').waitFor({ state: 'attached' })
    await countsTo(page, before + 2)
    await parley.post('/api/v1/messages', job({ messages: userMessage('after it came back') }), key)
    await countsTo(page, before + 3)
  })

  test('a stream that falls silent without ending counts as lost, and is opened again', async (t) => {
    const page = await visit(t, browser, parley, '/dashboard/settings')
    await page.clock.install()
    await page.addInitScript(imitateEvents, { once: true })
    const opened = page.waitForResponse(/\/admin\/api\/events$/)
    await page.goto('/dashboard')
    await page.getByText('Live', { exact: true }).waitFor()
    // The clock stands still from here on, so a slow machine makes no difference.
    const openedAt = Number(await page.evaluate(() => sessionStorage.getItem('opened')))
    await page.clock.pauseAt(openedAt + 11_000)
    assert.equal(await page.getByText('Reconnecting', { exact: true }).count(), 0)
    await page.clock.fastForward(1_500)
    await page.clock.resume()
    await opened
    await page.getByText('Live', { exact: true }).waitFor()
  })

  test('on a slow connection, the overview is not asked for again before it has arrived', async (t) => {
    const page = await visit(t, browser, parley, '/dashboard/settings', { expected: /ERR_FAILED/ })
    await page.clock.install()
    await page.addInitScript(imitateEvents, { once: false })
    let isHeld = false
    const held: Route[] = []
    await page.route('**/admin/api/overview', (route) => (isHeld ? void held.push(route) : route.continue()))
    await page.goto('/dashboard')
    await page.getByText('Live', { exact: true }).waitFor()
    isHeld = true
    for (let seconds = 0; seconds < 35; seconds++) await page.clock.runFor(1000)
    assert.equal(held.length, 1)
    await held[0]?.abort()
  })
})
