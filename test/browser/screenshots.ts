/**
 * `npm run screenshots [FOLDER]` takes pictures of every page, wide and narrow, light and dark, for people to look at. `--only
 * a,b` takes some of them. `--docs` writes the few that the documents show to docs/pictures.
 */
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { type BusyParley, startBusyParley } from './busy-parley.ts'
import { play, press, rows, showContents } from './steps.ts'
import { openBrowser, visit } from './visit.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    docs: { type: 'boolean', default: false },
    load: { type: 'string', default: '46' },
    only: { type: 'string' },
  },
})
const folder = positionals[0] ?? join(tmpdir(), 'parley-screenshots')
const PICTURES = fileURLToPath(new URL('../../docs/pictures', import.meta.url))

const ends: (() => unknown)[] = []
const lifetime = { after: (end: () => unknown) => void ends.unshift(end) }

interface Shot {
  readonly name: string
  readonly path: (busy: BusyParley) => string
  readonly signedIn?: boolean
  /** A picture about the last panel needs a window that reaches it. */
  readonly docsHeight?: number
  /** By default, the picture is taken once the page shows a table. */
  readonly prepare?: (page: Page) => Promise<unknown>
}

const SHOTS: readonly Shot[] = [
  { name: 'sign-in', path: () => '/dashboard', signedIn: false, prepare: wrongToken },
  { name: 'overview', path: () => '/dashboard', prepare: (page) => page.waitForSelector('.plot-box canvas') },
  { name: 'jobs', path: () => '/dashboard/jobs' },
  { name: 'job', path: ({ job }) => `/dashboard/jobs/${job}`, docsHeight: 1262, prepare: showContents },
  { name: 'delete-job', path: ({ job }) => `/dashboard/jobs/${job}`, prepare: press('Delete job…') },
  { name: 'batches', path: () => '/dashboard/batches' },
  { name: 'batch', path: ({ batch }) => `/dashboard/batches/${batch}` },
  { name: 'callbacks', path: () => '/dashboard/callbacks' },
  { name: 'callback', path: ({ job }) => `/dashboard/callbacks/${job}` },
  { name: 'accounts', path: () => '/dashboard/accounts' },
  { name: 'account', path: () => '/dashboard/accounts/harbour-tools' },
  { name: 'suspended', path: () => '/dashboard/accounts/trial-42' },
  { name: 'suspend', path: () => '/dashboard/accounts/acme', prepare: press('Suspend account…') },
  { name: 'wrong-cap', path: () => '/dashboard/accounts/harbour-tools', prepare: wrongCap },
  { name: 'secret', path: () => '/dashboard/accounts/acme', prepare: rotate },
  { name: 'revoke', path: () => '/dashboard/accounts/acme', prepare: press(/^Revoke/) },
  { name: 'replay-all', path: () => '/dashboard/callbacks', prepare: press('Replay all failed…') },
  { name: 'operator', path: () => '/dashboard/settings', prepare: press(/name/i) },
  { name: 'cancel-jobs', path: () => '/dashboard/accounts/trial-42', prepare: press('Cancel jobs…') },
  { name: 'delete-account', path: () => '/dashboard/accounts/trial-42', prepare: deleteAccount },
  { name: 'usage', path: () => '/dashboard/usage' },
  { name: 'audit', path: () => '/dashboard/audit' },
  { name: 'new-key', path: () => '/dashboard/accounts', prepare: makeKey },
  { name: 'settings', path: () => '/dashboard/settings' },
  { name: 'playground', path: () => '/dashboard/playground', prepare: play },
  { name: 'docs', path: () => '/docs', prepare: (page) => page.waitForLoadState('networkidle') },
]

const IN_DOCS = ['overview', 'job', 'usage', 'playground']
const only = values.only?.split(',')
const chosen = SHOTS.filter(({ name }) => only?.includes(name) ?? true)

async function wrongToken(page: Page) {
  await page.getByLabel('Admin token').fill('wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').waitFor()
}

async function deleteAccount(page: Page) {
  await page.getByRole('button', { name: 'Delete account…' }).click()
  await page.getByLabel(/name to confirm/).fill('trial-42')
}

async function wrongCap(page: Page) {
  await page.getByLabel('Jobs per month, at most').fill('many')
  await page.getByRole('button', { name: 'Set caps' }).click()
  await page.getByText('Enter a whole number').waitFor()
}

async function rotate(page: Page) {
  await page.getByRole('button', { name: /^Signing secret/ }).click()
  await page.getByRole('button', { name: 'Rotate…' }).click()
  await page.getByRole('button', { name: 'Rotate now' }).waitFor()
}

async function makeKey(page: Page) {
  await page.getByRole('button', { name: 'Create a key…' }).click()
  await page.getByRole('dialog').getByLabel('Account').fill('newcomer')
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await page.getByText('This key is shown only once').waitFor()
}

async function take(
  browser: Browser,
  busy: BusyParley,
  shot: Shot,
  width: number,
  theme: 'light' | 'dark',
  path: string,
) {
  const own: (() => unknown)[] = []
  const { signedIn = true, docsHeight = 860 } = shot
  const forDocs = path.startsWith(PICTURES)
  const height = width < 500 ? 844 : forDocs ? docsHeight : 860
  const page = await visit({ after: (end) => void own.push(end) }, browser, busy.parley, shot.path(busy), {
    width,
    height,
    theme,
    signedIn,
    expected: /401/,
  })
  await (shot.prepare ?? rows)(page)
  await page.evaluate('scrollTo(0, 0)')
  await page.screenshot({ path, fullPage: !forDocs && shot.name !== 'docs' })
  for (const end of own) await end()
}

try {
  await mkdir(folder, { recursive: true })
  const browser = await openBrowser(lifetime)
  const busy = await startBusyParley(lifetime, Number(values.load) * 1000)
  if (values.docs) {
    await mkdir(PICTURES, { recursive: true })
    for (const shot of chosen.filter(({ name }) => IN_DOCS.includes(name))) {
      await take(browser, busy, shot, 1280, 'light', join(PICTURES, `${shot.name}.png`))
    }
  } else {
    for (const shot of chosen) {
      for (const width of [1280, 390]) {
        for (const theme of ['light', 'dark'] as const) {
          await take(browser, busy, shot, width, theme, join(folder, `${shot.name}-${width}-${theme}.png`))
        }
      }
    }
    process.stdout.write(`${folder}\n`)
  }
} finally {
  for (const end of ends) await end()
}
