/**
 * Gives a test file a browser, and its tests visits of the dashboard. A visit fails its test when the page logs an error: a
 * script that throws, a missing file, or anything that the content security policy forbids.
 *
 * ```ts
 * const browser = await openBrowser({ after })
 * const page = await visit(t, browser, parley, '/dashboard/jobs')
 * ```
 */
import assert from 'node:assert/strict'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { ADMIN_TOKEN, type Lifetime, type Parley } from '../parley.ts'
import { launchChromium } from './chromium.ts'

export interface VisitOptions {
  readonly theme?: 'light' | 'dark'
  readonly width?: number
  readonly height?: number
  readonly signedIn?: boolean
  /** The test causes errors that match this pattern on purpose. Any other error fails the test. */
  readonly expected?: RegExp
}

/** The timeout only has to end what hangs, so it is long enough for a busy machine. */
const TIMEOUT_MS = 30_000

export async function openBrowser(t: Lifetime): Promise<Browser> {
  const browser = await launchChromium()
  t.after(() => browser.close())
  return browser
}

export async function visit(
  t: Lifetime,
  browser: Browser,
  parley: Pick<Parley, 'url'>,
  path: string,
  options: VisitOptions = {},
): Promise<Page> {
  const { signedIn = true, expected } = options
  const key = JSON.stringify([parley.url, options.theme, options.width, options.height, signedIn])
  const idle = idleContexts(browser, key)
  const context = idle.pop() ?? (await newContext(browser, parley.url, options))
  const page = await context.newPage()
  const errors: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.text().includes('Content Security Policy'))
      errors.push(message.text())
  })
  page.on('pageerror', (error) => errors.push(String(error)))
  t.after(async () => {
    await Promise.all(context.pages().map((one) => one.close()))
    // A visitor who is not signed in must find no state, so this context is not reused.
    if (signedIn) idle.push(context)
    else await context.close()
    assert.deepEqual(
      errors.filter((error) => !expected?.test(error)),
      [],
    )
  })
  await page.goto(path)
  return page
}

const contexts = new WeakMap<Browser, Map<string, BrowserContext[]>>()

/**
 * These contexts belong to visits that have ended. Reusing their cache saves loading the hundred files of the page, which takes
 * several times as long as a visit.
 */
function idleContexts(browser: Browser, key: string): BrowserContext[] {
  const byKey = contexts.get(browser) ?? new Map<string, BrowserContext[]>()
  contexts.set(browser, byKey)
  const idle = byKey.get(key) ?? []
  byKey.set(key, idle)
  return idle
}

async function newContext(browser: Browser, url: string, options: VisitOptions): Promise<BrowserContext> {
  const { theme = 'light', width = 1280, height = 900, signedIn = true } = options
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    locale: 'en-GB',
    reducedMotion: 'reduce',
    baseURL: url,
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  context.setDefaultTimeout(TIMEOUT_MS)
  if (signedIn) await context.addInitScript(signIn, ADMIN_TOKEN)
  return context
}

/** Runs inside the page. The tab gets the state that signing in creates, and nothing of an earlier visit. */
function signIn(token: string): void {
  if (sessionStorage.getItem('parley.test') !== null) return
  sessionStorage.setItem('parley.test', 'begun')
  sessionStorage.setItem('parley.admin-token', token)
  localStorage.clear()
}
