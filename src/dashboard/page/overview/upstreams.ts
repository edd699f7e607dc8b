/** The health of the model servers: whether each is in use, its load, and the results of its calls. */
import { html } from 'htm/preact'
import type { MetricSample, Upstream } from '../contract.ts'
import { count, figure, timeOfDay } from '../format.ts'
import { serverNow } from '../live.ts'
import { Badge } from '../parts/badge.ts'
import { Panel } from '../parts/panel.ts'
import { sum } from './buckets.ts'

/** The name under which calls to the simulator are counted. */
const SIMULATOR = 'simulator'

export interface UpstreamsProps {
  readonly upstreams: readonly Upstream[]
  readonly points: readonly MetricSample[]
  readonly simulated: boolean
}

export function Upstreams({ upstreams, points, simulated }: UpstreamsProps) {
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
        ${upstreams.map((upstream) => html`<${Row} key=${upstream.name} upstream=${upstream} points=${points} name=${simulated ? SIMULATOR : upstream.name} />`)}
        ${upstreams.length === 0 && html`<tr><td colspan="6" class="muted">This node uses no upstreams.</td></tr>`}
      </tbody>
    </table>
  <//>`
}

interface RowProps {
  readonly upstream: Upstream
  readonly points: readonly MetricSample[]
  /** The name under which the upstream's calls are counted. */
  readonly name: string
}

const REJECTED = {
  system: 'system messages',
  irregular: 'system messages after the first message, and roles that do not alternate',
} as const

function Row({ upstream, points, name }: RowProps) {
  const {
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
  const isSkipped = skipped_until !== null && skipped_until > serverNow()
  return html`<tr>
    <th scope="row">
      <span class="breaks">${name}</span>
      ${rejected_roles.map(({ model, rejects, until }) => html`<div key=${model} class="hint breaks">${model} rejects ${REJECTED[rejects]}. Until ${timeOfDay(until)} they are sent in user messages.</div>`)}
      ${unavailable.map(({ model, since, message }) => html`<div key=${model} class="hint breaks">Jobs have been waiting for ${model} since ${timeOfDay(since)}: ${message}</div>`)}
      ${limited_accounts > 0 && html`<div class="hint">${limited_accounts} ${limited_accounts === 1 ? 'account waits' : 'accounts wait'} because of failures of their own calls.</div>`}
    </th>
    <td>
      ${isSkipped ? html`<${Badge} state="skipped" /> <span class="muted">until ${timeOfDay(skipped_until)}</span>` : html`<${Badge} state="healthy" />`}
    </td>
    <td class="number">${count(running)} <span class="muted wide">of ${count(concurrency_limit)}${concurrency_limit < max_concurrency && ` (up to ${count(max_concurrency)})`}</span></td>
    <td class="number wide">${count(waiting)}</td>
    <td class="number">${count(calls)}</td>
    <td class="number">${calls === 0 ? '–' : html`${count(trouble)}<span class="wide"> (${figure((trouble / calls) * 100)}%)</span>`}</td>
  </tr>`
}
