/** The start page: the state of the server now and during the last minutes. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { reasonText } from '../accounts/held-back.ts'
import type { HeldBack as HeldBackAccount, Overview } from '../contract.ts'
import { duration } from '../format.ts'
import { serverNow, useLive } from '../live.ts'
import { Badge } from '../parts/badge.ts'
import { PageTitle } from '../parts/page-title.ts'
import { Panel } from '../parts/panel.ts'
import { Empty } from '../parts/state-of.ts'
import { address } from '../router.ts'
import { total } from './buckets.ts'
import { Charts } from './charts.ts'
import { Figures } from './figures.ts'
import { Upstreams } from './upstreams.ts'

const SPANS = [
  [5 * 60, '5 min'],
  [15 * 60, '15 min'],
] as const

export function OverviewPage() {
  const { overview, points, connection } = useLive()
  const [span, setSpan] = useState<number>(SPANS[1][0])
  if (!overview) {
    return html`<${PageTitle} title="Overview" />
      <p class=${connection === 'reconnecting' ? 'fault' : 'loading'} aria-busy="true">
        ${connection === 'reconnecting' ? 'The server does not respond. Trying again…' : 'Loading the figures…'}
      </p>`
  }
  const now = points.at(-1)?.at ?? overview.now
  const shown = points.filter(({ at }) => at > now - span)
  const isQuiet = isFirstRun(overview) && points.every(({ jobs }) => total(jobs) === 0)
  return html`<${PageTitle} title="Overview">
      <div class="segments" role="group" aria-label="Time shown">
        ${SPANS.map(
          ([
            seconds,
            label,
          ]) => html`<button type="button" key=${seconds} aria-pressed=${seconds === span ? 'true' : 'false'}
            onClick=${() => setSpan(seconds)}>${label}</button>`,
        )}
      </div>
    <//>
    <${AboutNode} overview=${overview} />
    ${
      isQuiet &&
      html`<${Empty} title="No jobs have run here yet">
        <p>Send a message in the <a href=${address(['playground'])}>playground</a>, or call the <a href="/docs" target="_blank" rel="noreferrer">API</a> with your own key.</p>
      <//>`
    }
    <${Figures} overview=${overview} points=${points} />
    <${HeldBack} accounts=${overview.held_back} />
    <${Charts} points=${shown} now=${now} span=${span} />
    <${Upstreams} upstreams=${overview.upstreams} points=${shown} simulated=${overview.simulated} />`
}

/** Whether there are no open jobs and no callbacks: the database is empty or idle, and the metric samples show which. */
function isFirstRun({ jobs, callbacks }: Overview): boolean {
  return jobs.waiting + jobs.assigned + callbacks.owed + callbacks.failed === 0
}

function AboutNode({ overview }: { readonly overview: Overview }) {
  const { version, node, role, simulated, started_at } = overview
  return html`<p class="about-node">
    <span>Version ${version}</span>
    <span>node <code>${node}</code>${role === 'all' ? '' : ` (${role})`}</span>
    <span>up ${duration((serverNow() - started_at) * 1000)}</span>
    ${simulated && html`<span class="badge busy">the built-in simulator answers</span>`}
  </p>`
}

/** The accounts that this node delays, with the reasons; renders nothing if there are none. */
function HeldBack({ accounts }: { readonly accounts: readonly HeldBackAccount[] }) {
  if (accounts.length === 0) return null
  return html`<${Panel} title="Accounts held back on this node" wide>
    <p class="hint">Their queued jobs wait so that jobs of other accounts can start. Other nodes may hold back other accounts.</p>
    <table>
      <thead>
        <tr>
          <th scope="col">Account</th>
          <th scope="col">Waiting for</th>
          <th scope="col">Reason</th>
        </tr>
      </thead>
      <tbody>
        ${accounts.map(
          (one) => html`<tr key=${`${one.account} ${one.reason}`}>
            <th scope="row"><a class="breaks" href=${address(['accounts', one.account])}>${one.account}</a></th>
            <td><${Badge} state="busy" word=${one.reason} /></td>
            <td>${reasonText(one)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  <//>`
}
