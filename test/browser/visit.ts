/**
 * A browser for a test file, and visits of the dashboard in it. A visit fails its test when the page logs an error: a
 * script that throws, a file that is not there, anything that the content security policy forbids.
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
  /** Signed in unless false. */
  readonly signedIn?: boolean
  /** Errors that the test means to cause; others fail it. */
  readonly expected?: RegExp
}

const TIMEOUT_MS = 10_000

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
  const { theme = 'light', width = 1280, height = 900, signedIn = true, expected } = options
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    locale: 'en-GB',
    reducedMotion: 'reduce',
    baseURL: parley.url,
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  context.setDefaultTimeout(TIMEOUT_MS)
  if (signedIn) await signIn(context)
  const page = await context.newPage()
  const errors: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.text().includes('Content Security Policy'))
      errors.push(message.text())
  })
  page.on('pageerror', (error) => errors.push(String(error)))
  t.after(async () => {
    await context.close()
    assert.deepEqual(
      errors.filter((error) => !expected?.test(error)),
      [],
    )
  })
  await page.goto(path)
  return page
}

/** What signing in leaves in the tab. */
async function signIn(context: BrowserContext): Promise<void> {
  await context.addInitScript((token) => {
    if (sessionStorage.getItem('parley.test') !== null) return
    sessionStorage.setItem('parley.test', 'begun')
    sessionStorage.setItem('parley.admin-token', token)
  }, ADMIN_TOKEN)
}
