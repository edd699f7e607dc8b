/**
 * Tests that the alert rules, the Grafana dashboard and the documents refer only to existing metrics. Each selector must match
 * a metric of a server that has seen most kinds of events.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parse } from 'yaml'
import { StoreUnavailable } from '../../src/store/store.ts'
import { reply } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { job, type Lifetime, type Parley } from '../parley.ts'
import { CLONE } from '../process/server-process.ts'
import { startReceiver } from '../receiver.ts'
import { beforeTests } from '../support/on-first-use.ts'
import { type Caller, LOCAL_CALLBACKS, startScene } from './caller.ts'
import { completed, failed, refused } from './expect.ts'
import { groupedBy, type Sample, type Selector, samplesIn, selectorsOf, selects } from './promql.ts'

/** Prometheus adds these labels itself. */
const ADDED_LABELS = ['job', 'instance']
const ADDED_METRICS = ['up']
/** The runtime reports these metrics on Linux only. */
const ON_LINUX = /^process_(open|max)_fds$/
const ON_SQLITE = /^parley_disk_/
/** Only upstreams with a rate have this metric. rates.test.ts reads it. */
const WITH_A_RATE = /^parley_upstream_rate_waiting$/

const alerts = expressionsOfAlerts(file('deploy/prometheus-alerts.yml'))
const panels = expressionsOfDashboard(file('deploy/grafana-dashboard.json'))

/** The answer ends at a length limit, and reports far fewer tokens than Parley sent. */
const CUT = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'It is' }, finish_reason: 'length' }],
  usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
}

onEachStore(() => {
  const targets = ['first', 'second'].map((model) => ({ upstream: 'openai', model }))
  const callbacks = { ...LOCAL_CALLBACKS.callbacks, retry_seconds: [0] }
  let parley: Parley
  let caller: Caller
  let samples: readonly Sample[]
  beforeTests(async (t) => {
    ;({ parley, caller } = await startScene(t, {
      settings: { callbacks, models: { 'gpt-5-mini': { targets } } },
      script: ({ body, text }) => {
        const wanted = /STATUS (\d+)/.exec(text)?.[1]
        if (wanted !== undefined && body.model === 'first') return reply.status(Number(wanted))
        if (text.includes('CUT')) return reply.status(200, { body: CUT })
        return text.includes('in JSON') ? reply.text('{"river":5}') : undefined
      },
    }))
    samples = await seen(t)
  })

  test('each selector of the alerts finds something in /metrics, and they group by labels that there are', () => {
    assert.ok(alerts.length > 20)
    assertFound(alerts)
  })

  test('each selector of the dashboard finds something in /metrics, and it groups by labels that there are', () => {
    assert.ok(panels.length > 40)
    assertFound(panels)
  })

  test('the panels of single figures show those of now: with a range, they would show the last ones of a dead server', () => {
    const { panels: all } = JSON.parse(file('deploy/grafana-dashboard.json'))
    const single = all.filter(({ type }: { readonly type: string }) => type === 'stat')
    assert.ok(single.length > 0)
    for (const { title, targets } of single)
      assert.deepEqual([targets[0].instant, targets[0].range], [true, false], title)
  })

  test('the panel of responses counts both APIs of callers, and not that of operators', () => {
    const [, route = ''] = /route=~\\"(.*?)\\"/.exec(file('deploy/grafana-dashboard.json')) ?? []
    const counted = ['/api/v1/messages', '/v1/chat/completions', '/admin/api/overview', '/metrics']
    assert.deepEqual(
      counted.filter((one) => new RegExp(`^(?:${route})$`).test(one)),
      counted.slice(0, 2),
    )
  })

  test('docs/monitoring.md has each metric of Parley, and no other', () => {
    const ours = new Set(samples.map(({ metric }) => metric).filter((name) => name.startsWith('parley_')))
    const families = new Set([...ours].map((name) => name.replace(/_(bucket|sum|count)$/, '')))
    const table = [...file('docs/monitoring.md').matchAll(/^\| (`parley_.*?) \|/gm)].map(([, cell]) => cell)
    const named = new Set(table.join(' ').match(/\bparley_\w+/g))
    const elsewhere = parley.store.shared ? ON_SQLITE : /^$/
    const here = [...named].filter((name) => !elsewhere.test(name) && !WITH_A_RATE.test(name))
    assert.deepEqual(here.sort(), [...families].sort())
  })

  async function seen(t: Lifetime): Promise<readonly Sample[]> {
    // A CPU pool thread reads the long body, so the metrics of these threads have values.
    for (const content of ['Hello', 'Hello', ' word'.repeat(20_000)]) completed(await caller.ask(content))
    for (const status of [401, 429, 503]) completed(await caller.ask(`STATUS ${status}`))
    failed(await caller.ask('STATUS 400'))
    const schema = { type: 'object', properties: { river: { type: 'string' } }, required: ['river'] }
    failed(await caller.ask('Name a river in JSON', { response_format: { format: 'json', schema } }))
    await callbacksEnd(t)
    completed(await caller.ask(`CUT ${'word '.repeat(200)}`))
    const { accept } = parley.store
    for (const [error, status] of [
      [new StoreUnavailable('it is gone'), 503],
      [new Error('a bug'), 500],
    ] as const) {
      parley.store.accept = () => Promise.reject(error)
      refused(await caller.batch([job()]), status)
    }
    parley.store.accept = accept
    collectGarbage()
    for (;;) {
      const { text } = await parley.get('/metrics')
      // Parley counts tokens some time later. Only then does the metric of dropped parts appear.
      const isComplete =
        /^parley_context_shifts_total/m.test(text) && text.includes('nodejs_gc_duration_seconds_sum')
      if (isComplete) return samplesIn(text)
    }
  }

  async function callbacksEnd(t: Lifetime): Promise<void> {
    const receiver = await startReceiver({}, t)
    receiver.script({ kind: 'answer' }, { kind: 'answer', status: 500 })
    for (const count of [1, 2]) {
      await caller.enqueueOne({ callback: { callback_url: receiver.url } })
      await receiver.received(count)
    }
    for (;;) {
      const { text } = await parley.get('/metrics')
      if (/^parley_callbacks_total\{outcome="failed"\} 1$/m.test(text)) return
    }
  }

  function collectGarbage(): void {
    setFlagsFromString('--expose-gc')
    runInNewContext('gc')()
  }

  function assertFound(expressions: readonly string[]): void {
    for (const expression of expressions) {
      const selectors = selectorsOf(expression).map(withoutAdded).filter(isHere)
      const found = selectors.map((selector) => samples.filter((sample) => selects(selector, sample)))
      for (const [index, { metric }] of selectors.entries()) {
        assert.ok(found[index]?.length, `${metric} of ${expression} is not in /metrics`)
      }
      const labels = new Set(found.flat().flatMap((sample) => Object.keys(sample.labels)))
      for (const label of groupedBy(expression)) {
        assert.ok(labels.has(label) || ADDED_LABELS.includes(label), `${label} of ${expression}`)
      }
    }
  }

  function withoutAdded({ metric, matchers }: Selector): Selector {
    return { metric, matchers: matchers.filter(({ label }) => !ADDED_LABELS.includes(label)) }
  }

  function isHere({ metric }: Selector): boolean {
    if (ADDED_METRICS.includes(metric)) return false
    if (ON_LINUX.test(metric)) return process.platform === 'linux'
    return !(ON_SQLITE.test(metric) && parley.store.shared)
  }
})

function file(path: string): string {
  return readFileSync(join(CLONE, path), 'utf8')
}

function expressionsOfAlerts(text: string): string[] {
  const { groups } = parse(text) as { groups: { rules: { expr: string }[] }[] }
  return groups.flatMap(({ rules }) => rules.map(({ expr }) => expr))
}

interface Dashboard {
  readonly panels: { readonly targets?: { readonly expr: string }[] }[]
  readonly annotations: { readonly list: { readonly expr?: string }[] }
  readonly templating: { readonly list: { readonly definition?: string }[] }
}

function expressionsOfDashboard(text: string): string[] {
  const { panels: all, annotations, templating } = JSON.parse(text) as Dashboard
  const variables = templating.list.flatMap(
    ({ definition }) => /^label_values\((.*), \w+\)$/.exec(definition ?? '')?.[1] ?? [],
  )
  const marks = annotations.list.flatMap(({ expr }) => expr ?? [])
  return [...all.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)), ...marks, ...variables]
}
