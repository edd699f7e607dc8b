/** Checks docs/limits.md against the settings and the other documents, and for consistency. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { defaultOf, LIMITS, metricOf } from '../../scripts/limits-page.ts'
import { DEFAULTS } from '../../src/config/settings.ts'

const limits = Object.values(LIMITS).flat()

/** These settings are numbers that limit nothing: addresses, sizes of pools, shares, and times of the server itself. */
const NO_LIMITS = [
  'port',
  'postgres.connections',
  'tiers.NAME.weight',
  'jobs.lease_seconds',
  'jobs.hang_seconds',
  'jobs.drain_seconds',
  'shutdown.listen_seconds',
  'cpu.threads',
]

test('each setting with a number is on the page of limits, or is known to limit nothing', () => {
  const listed = limits.flatMap(({ setting }) => setting ?? [])
  const known = new Set([...listed, ...NO_LIMITS])
  const numbers = new Set(numbersOf(DEFAULTS))
  assert.deepEqual([...numbers.difference(known)], [], 'add them to LIMITS, or to NO_LIMITS above')
  assert.deepEqual([...known.difference(numbers)], [], 'no such setting')
})

test('each limit has a default and either a setting or a fixed value', () => {
  for (const { name, setting, fixed } of limits) {
    assert.equal((setting === undefined) !== (fixed === undefined), true, name)
    if (setting !== undefined) assert.notEqual(defaultOf(setting), undefined, name)
  }
})

test('each limit has a metric that docs/monitoring.md describes, unless nobody is refused or delayed', () => {
  const guide = readFileSync(new URL('../../docs/monitoring.md', import.meta.url), 'utf8')
  const silent = []
  for (const limit of limits) {
    const [metric] = metricOf(limit)?.split('{') ?? []
    if (metric === undefined) silent.push(limit.name)
    else assert.ok(guide.includes(metric), metric)
  }
  assert.deepEqual(silent, [
    'age of an `Idempotency-Key`',
    'time in which a repeated `/v1` request joins the job of a caller who disconnected',
    'stored batches',
    'rows that one search scans',
    'response of a receiver',
  ])
})

/** A default of null stands for no limit, so such a setting counts as a number. */
function numbersOf(value: unknown, path = ''): string[] {
  if (value === null || typeof value === 'number') return [path]
  if (Array.isArray(value))
    return value.every((entry) => typeof entry === 'number') && value.length > 0 ? [path] : []
  if (typeof value !== 'object') return []
  const generic = path === 'tiers' || path === 'upstreams'
  return Object.entries(value)
    .filter(
      ([name]) =>
        !(path.startsWith('upstreams.') && ['api_key_env', 'ca_file', 'roles', 'wake_url'].includes(name)),
    )
    .flatMap(([name, entry]) => numbersOf(entry, path === '' ? name : `${path}.${generic ? 'NAME' : name}`))
}
