/** Renders the start page: the state of the server and of the model servers, now and during the last minutes. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { reasonText } from '../accounts/accounts-page.ts'
import type { HeldBack as HeldBackAccount, MetricSample, Overview, Upstream } from '../contract.ts'
import { count, duration, figure, timeOfDay } from '../format.ts'
import { serverNow, useLive } from '../live.ts'
import { Segments } from '../parts/field.ts'
import { Badge } from '../parts/labels.ts'
import { type Columns, Table } from '../parts/list.ts'
import { PageTitle, Panel } from '../parts/sections.ts'
import { Empty } from '../resource.ts'
import { address } from '../router.ts'
import { Charts, sum, total } from './charts.ts'

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
      <${Segments} label="Time shown" value=${span} options=${SPANS} onChange=${setSpan} />
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

/** An empty database and an idle one look the same here. Only the metric samples show whether jobs have run. */
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

function HeldBack({ accounts }: { readonly accounts: readonly HeldBackAccount[] }) {
  if (accounts.length === 0) return null
  return html`<${Panel} title="Accounts held back on this node" wide>
    <p class="hint">Their queued jobs wait so that jobs of other accounts can start. Other nodes may hold back other accounts.</p>
    <${Table} caption="Accounts held back" columns=${HELD_BACK} rows=${accounts} keyOf=${({ account, reason }: HeldBackAccount) => `${account} ${reason}`} />
  <//>`
}

const HELD_BACK: Columns<HeldBackAccount> = [
  ['Account', ({ account }) => html`<a class="breaks" href=${address(['accounts', account])}>${account}</a>`],
  ['Waiting for', ({ reason }) => html`<${Badge} state="busy" word=${reason} />`],
  ['Reason', reasonText],
]

interface UpstreamsProps {
  readonly upstreams: readonly Upstream[]
  readonly points: readonly MetricSample[]
  readonly simulated: boolean
}

function Upstreams({ upstreams, points, simulated }: UpstreamsProps) {
  return html`<${Panel} title="Upstreams" wide>
    ${simulated && html`<p class="hint">The built-in simulator answers every job, so the answers are not those of a model.</p>`}
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">State</th>
          <th scope="col" class="number">Running</th>
          <th scope="col" class="number wide">Waiting</th>
          <th scope="col" class="number">Calls</th>
          <th scope="col" class="number">Errors</th>
        </tr>
      </thead>
      <tbody>
        ${upstreams.map((upstream) => html`<${Row} key=${upstream.name} upstream=${upstream} points=${points} />`)}
        ${upstreams.length === 0 && html`<tr><td colspan="6" class="muted">This node uses no upstreams.</td></tr>`}
      </tbody>
    </table>
  <//>`
}

interface RowProps {
  readonly upstream: Upstream
  readonly points: readonly MetricSample[]
}

const REJECTED = {
  system: 'system messages',
  irregular: 'system messages after the first message, and roles that do not alternate',
} as const

function Row({ upstream, points }: RowProps) {
  const {
    name,
    running,
    waiting,
    concurrency_limit,
    max_concurrency,
    skipped_until,
    rejected_roles,
    unavailable,
    limited_accounts,
  } = upstream
  const ok = sum(points, ({ calls }) => calls[name]?.ok ?? 0)
  const trouble = sum(points, ({ calls }) => calls[name]?.trouble ?? 0)
  const calls = ok + trouble
  // An upstream that is skipped is checked within seconds. It does not count as healthy until the check succeeds.
  const state = skipped_until !== null ? 'skipped' : unavailable.length > 0 ? 'unavailable' : 'healthy'
  const isLater = skipped_until !== null && skipped_until > serverNow()
  return html`<tr>
    <th scope="row">
      <span class="breaks">${name}</span>
      ${rejected_roles.map(({ model, rejects, until }) => html`<div key=${model} class="hint breaks">${model} rejects ${REJECTED[rejects]}. Until ${timeOfDay(until)} they are sent in user messages.</div>`)}
      ${unavailable.map(({ model, since, message }) => html`<div key=${model} class="hint breaks">Jobs have been waiting for ${model} since ${timeOfDay(since)}: ${message}</div>`)}
      ${limited_accounts > 0 && html`<div class="hint">${limited_accounts} ${limited_accounts === 1 ? 'account waits' : 'accounts wait'} because of failures of their own calls.</div>`}
    </th>
    <td>
      <${Badge} state=${state} />${isLater && html` <span class="muted">until ${timeOfDay(skipped_until)}</span>`}
    </td>
    <td class="number">${count(running)} <span class="muted wide">of ${count(concurrency_limit)}${concurrency_limit < max_concurrency && ` (up to ${count(max_concurrency)})`}</span></td>
    <td class="number wide">${count(waiting)}</td>
    <td class="number">${count(calls)}</td>
    <td class="number">${calls === 0 ? '–' : html`${count(trouble)}<span class="wide"> (${figure((trouble / calls) * 100)}%)</span>`}</td>
  </tr>`
}

interface FiguresProps {
  readonly overview: Overview
  readonly points: readonly MetricSample[]
}

interface Figure {
  readonly name: string
  readonly value: string
  readonly note: string
  readonly href?: string
  readonly tone?: 'bad' | 'busy'
}

function Figures(props: FiguresProps) {
  return html`<ul class="figures" aria-label="Now">
    ${figuresOf(props).map(
      ({
        name,
        value,
        note,
        href,
        tone,
      }) => html`<li key=${name} class=${tone ? `figure is-${tone}` : 'figure'}>
        <span class="figure-name">${href ? html`<a href=${href}>${name}</a>` : name}</span>
        <span class="figure-value">${value}</span>
        <span class="figure-note">${note}</span>
      </li>`,
    )}
  </ul>`
}

function figuresOf({ overview, points }: FiguresProps): readonly Figure[] {
  const last = points.at(-1)
  const minute = points.filter(({ at }) => at > (last?.at ?? 0) - 60)
  const ended = sum(points, ({ jobs }) => total(jobs))
  const completed = sum(points, ({ jobs }) => jobs.completed ?? 0)
  const failed = ended - completed
  const endedMinute = sum(minute, ({ jobs }) => total(jobs))
  const waiting = last?.waiting ?? overview.jobs.waiting
  const oldest = last?.oldest_age_seconds ?? overview.jobs.oldest_age_seconds
  const running = last?.running ?? overview.jobs.running
  const assigned = last?.assigned ?? overview.jobs.assigned
  const owed = last?.callbacks_owed ?? overview.callbacks.owed
  const { failed: failedCallbacks, late_seconds: late } = overview.callbacks
  const tokens = sum(minute, (point) =>
    Object.values(point.tokens).reduce((n, { input, output }) => n + input + output, 0),
  )
  const slow = minute.map(({ run_ms }) => run_ms.p95).filter((ms) => ms !== null)
  return [
    { name: 'Finished', value: count(endedMinute), note: 'jobs in the last minute', href: address(['jobs']) },
    {
      name: 'Failed',
      value: count(failed),
      note:
        ended === 0
          ? 'in 15 minutes'
          : `of ${count(ended)} in 15 minutes (${figure((failed / ended) * 100)}%)`,
      href: address(['jobs'], { status: 'failed' }),
      ...(failed > 0 && { tone: 'bad' as const }),
    },
    {
      name: 'Queued',
      value: count(waiting),
      note: queueNote(waiting, oldest, overview.jobs.suspects),
      href: address(['jobs'], { status: 'pending' }),
    },
    {
      name: 'Running here',
      value: count(running),
      // The count of the database is older than this node's own count, so the smaller one may be outdated.
      note: `${count(Math.max(assigned, running))} on all nodes`,
      href: address(['jobs'], { status: 'assigned' }),
    },
    {
      name: 'Run time',
      value: slow.length === 0 ? '–' : duration(Math.max(...slow)),
      note: 'p95, last minute',
    },
    { name: 'Tokens', value: count(tokens), note: 'in the last minute' },
    {
      name: 'Pending callbacks',
      value: count(owed),
      // The figures of the database are older than the count of this node. The overdue callbacks may have been delivered since.
      note: late === 0 || owed === 0 ? 'none overdue' : `up to ${duration(late * 1000)} overdue`,
      href: address(['callbacks'], { state: 'owed' }),
    },
    {
      name: 'Callbacks failed',
      value: count(failedCallbacks),
      note: failedCallbacks > 0 ? 'can be replayed' : 'none',
      href: address(['callbacks'], { state: 'failed' }),
      ...(failedCallbacks > 0 && { tone: 'bad' as const }),
    },
  ]
}

/** The note mentions suspects, because they may wait although slots are free. */
function queueNote(waiting: number, oldestSeconds: number, { queued }: Overview['jobs']['suspects']): string {
  if (queued > 0) return `${count(queued)} run in small groups: their node crashed`
  return waiting === 0 ? 'the queue is empty' : `oldest: ${duration(oldestSeconds * 1000)}`
}
