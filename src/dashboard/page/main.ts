/**
 * Starts the dashboard, and renders what all pages share: the navigation, the operator's name, and whether the figures are
 * live.
 */
import { html, render } from 'htm/preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { AccountPage, AccountsPage } from './accounts/accounts-page.ts'
import { AuditPage } from './audit/audit-page.ts'
import { BatchesPage, BatchPage } from './batches/batches-page.ts'
import { CallbackPage, CallbacksPage } from './callbacks/callbacks-page.ts'
import { JobPage } from './jobs/job-page.ts'
import { JobsPage } from './jobs/jobs-page.ts'
import { beginLive, type Connection, useLive } from './live.ts'
import { OverviewPage } from './overview/overview-page.ts'
import { Announcements, announce } from './parts/announce.ts'
import { Icon, type IconName, Logo } from './parts/labels.ts'
import { PageTitle } from './parts/sections.ts'
import { PlaygroundPage } from './playground/playground-page.ts'
import { Empty } from './resource.ts'
import { address, followLinks, HOME, type Place, usePlace } from './router.ts'
import { adminToken, onSessionChange, signOut } from './session.ts'
import { SettingsPage } from './settings-page.ts'
import { Operator, SignIn } from './sign-in.ts'
import { beginTheme, isDark, onThemeChange, setTheme } from './theme.ts'
import { UsagePage } from './usage/usage-page.ts'

const PAGES: readonly (readonly [part: string, name: string, icon: IconName])[] = [
  ['', 'Overview', 'overview'],
  ['jobs', 'Jobs', 'jobs'],
  ['batches', 'Batches', 'batches'],
  ['callbacks', 'Callbacks', 'callbacks'],
  ['accounts', 'Accounts', 'accounts'],
  ['usage', 'Usage', 'usage'],
  ['audit', 'Audit log', 'audit'],
  ['settings', 'Settings', 'settings'],
  ['playground', 'Playground', 'playground'],
]

function App() {
  const [isIn, setIsIn] = useState(adminToken() !== null)
  useEffect(() => onSessionChange(() => setIsIn(adminToken() !== null)), [])
  return isIn ? html`<${Frame} />` : html`<${SignIn} />`
}

function Frame() {
  const place = usePlace()
  useEffect(beginLive, [])
  const here = place.parts[0] ?? ''
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header class="top">
      <a class="home" href=${HOME} aria-label="Parley, overview"><${Logo} /></a>
      <${LiveState} />
      <div class="top-actions">
        <${Operator} />
        <${ThemeSwitch} />
        <button type="button" class="icon-button" onClick=${() => signOut()} aria-label="Sign out" title="Sign out"><${Icon} name="leave" /></button>
      </div>
    </header>
    <nav class="pages-nav" aria-label="Pages">
      <ul>
        ${PAGES.map(
          ([part, name, icon]) => html`<li key=${part}>
          <a href=${part === '' ? HOME : address([part])} aria-current=${part === here ? 'page' : undefined}><${Icon} name=${icon} />${name}</a>
        </li>`,
        )}
        <li class="pages-nav-last"><a href="/docs" target="_blank" rel="noreferrer"><${Icon} name="document" />API reference<span class="visually-hidden"> (opens a new tab)</span></a></li>
      </ul>
    </nav>
    <main id="main" tabindex="-1"><${Page} key=${place.parts.join('/')} place=${place} /></main>
    <${Announcements} />`
}

function Page({ place: { parts } }: { readonly place: Place }) {
  const [name = '', id, ...more] = parts
  if (more.length === 0) {
    if (name === 'jobs') return id === undefined ? html`<${JobsPage} />` : html`<${JobPage} id=${id} />`
    if (name === 'batches')
      return id === undefined ? html`<${BatchesPage} />` : html`<${BatchPage} id=${id} />`
    if (name === 'callbacks')
      return id === undefined ? html`<${CallbacksPage} />` : html`<${CallbackPage} id=${id} />`
    if (name === 'accounts')
      return id === undefined ? html`<${AccountsPage} />` : html`<${AccountPage} name=${id} />`
    if (id === undefined) {
      if (name === '') return html`<${OverviewPage} />`
      if (name === 'usage') return html`<${UsagePage} />`
      if (name === 'audit') return html`<${AuditPage} />`
      if (name === 'settings') return html`<${SettingsPage} />`
      if (name === 'playground') return html`<${PlaygroundPage} />`
    }
  }
  return html`<${PageTitle} title="Not found" />
    <${Empty} title="Page not found"><p><a href=${HOME}>Overview</a></p><//>`
}

function ThemeSwitch() {
  const [dark, setDark] = useState(isDark())
  useEffect(() => onThemeChange(() => setDark(isDark())), [])
  const words = dark ? 'Switch to light colours' : 'Switch to dark colours'
  return html`<button type="button" class="icon-button" aria-label=${words} title=${words} onClick=${() => setTheme(dark ? 'light' : 'dark')}>
    <${Icon} name=${dark ? 'sun' : 'moon'} />
  </button>`
}

const WORDS: Readonly<Record<Connection, string>> = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting',
}

function LiveState() {
  const { connection } = useLive()
  const before = useRef<Connection>('connecting')
  useEffect(() => {
    if (connection === 'reconnecting' && before.current === 'live')
      announce('The connection was lost. Reconnecting.', true)
    if (connection === 'live' && before.current === 'reconnecting') announce('The connection is restored.')
    before.current = connection
  }, [connection])
  return html`<span class=${`live is-${connection}`}><span class="live-dot" aria-hidden="true"></span>${WORDS[connection]}</span>`
}

beginTheme()
followLinks()
const root = document.getElementById('app')
if (root) render(html`<${App} />`, root)
