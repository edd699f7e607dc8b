/** The current figures; most of them link to the matching list. */
import { html } from 'htm/preact'
import type { MetricSample, Overview } from '../contract.ts'
import { count, duration, figure } from '../format.ts'
import { address } from '../router.ts'
import { sum, total } from './charts.ts'

export interface FiguresProps {
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

export function Figures(props: FiguresProps) {
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
      // The database is read less often than this node's own count, so the smaller number is outdated.
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
      // The database is read less often than this node counts, so `late` may describe callbacks that have been delivered.
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

/** Mentions jobs whose node crashed, because they wait for their turn even if slots are free. */
function queueNote(waiting: number, oldestSeconds: number, { queued }: Overview['jobs']['suspects']): string {
  if (queued > 0) return `${count(queued)} run in small groups: their node crashed`
  return waiting === 0 ? 'the queue is empty' : `oldest: ${duration(oldestSeconds * 1000)}`
}
