/**
 * Checks that each alert is documented, and that each documented alert exists. If promtool is installed, it checks the rules.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { parse } from 'yaml'
import { CLONE } from '../process/server-process.ts'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: Readonly<Record<string, string>>
}

const RULES = 'deploy/prometheus-alerts.yml'
const TESTS = 'deploy/prometheus-alerts.test.yml'
const text = (path: string) => readFileSync(join(CLONE, path), 'utf8')
const { groups } = parse(text(RULES)) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const page = text('docs/runbook.md')
const headings = [...page.matchAll(/^### (.*)$/gm)].map(([, heading = '']) => heading)

test('each alert has a section on the page, in the same order, with its severity, and links to it', () => {
  assert.deepEqual(
    headings.filter((heading) => heading.startsWith('Parley')),
    rules.map(({ alert }) => alert),
  )
  for (const { alert, labels, annotations } of rules) {
    assert.match(page, new RegExp(`^### ${alert}\\n\\n${labels.severity} · `, 'm'))
    assert.equal(annotations.runbook_url, `docs/runbook.md#${alert.toLowerCase()}`)
    assert.ok(annotations.summary && annotations.description, alert)
  }
})

test('each alert is made to fire by a test of the rules', () => {
  const tests = text(TESTS)
  for (const { alert } of rules) assert.ok(tests.includes(`alertname="${alert}"`), alert)
})

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

test('promtool accepts the rules and their tests', {
  skip: hasPromtool ? false : 'promtool is not there',
}, () => {
  for (const args of [
    ['check', 'rules', RULES],
    ['test', 'rules', TESTS],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: CLONE, encoding: 'utf8' })
    assert.equal(status, 0, stdout + stderr)
  }
})
