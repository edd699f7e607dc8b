/**
 * Tests the manifests in deploy/kubernetes. Each must be valid by the published schemas, have no fields unknown to them, and
 * agree with the program, the image and the alert rules. They are not applied to a cluster.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { parse, parseAllDocuments } from 'yaml'
import { loadConfiguration } from '../../src/config/load.ts'
import { merge } from '../../src/config/merge.ts'
import { DEFAULTS, type Settings } from '../../src/config/settings.ts'
import { checkShape } from '../../src/config/shape.ts'
import { CLONE } from '../process/server-process.ts'
import { type Manifest, render } from './kustomize.ts'

const read = (name: string) => readFileSync(join(CLONE, name), 'utf8')
const FOLDER = join(CLONE, 'deploy/kubernetes')
const { version } = JSON.parse(read('package.json')) as { version: string }

/** In this copy, the optional components of each overlay are enabled. */
const complete = mkdtempSync(join(tmpdir(), 'parley-kubernetes-'))
after(() => rmSync(complete, { recursive: true, force: true }))
cpSync(FOLDER, complete, { recursive: true })
for (const overlay of ['sqlite', 'postgres']) {
  const file = join(complete, overlay, 'kustomization.yaml')
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^# (components:| {2}- )/gm, '$1'))
}

const BASE = ['Namespace', 'Deployment', 'Service', 'NetworkPolicy', 'ConfigMap']
const SQLITE = [...BASE, 'PersistentVolumeClaim']
const POSTGRES = [...BASE, 'PodDisruptionBudget', 'NetworkPolicy']
const MONITORING = ['ServiceMonitor', 'PrometheusRule']
const OVERLAYS: readonly { name: string; folder: string; kinds: readonly string[] }[] = [
  { name: 'sqlite', folder: join(FOLDER, 'sqlite'), kinds: SQLITE },
  { name: 'sqlite with components', folder: join(complete, 'sqlite'), kinds: [...SQLITE, ...MONITORING] },
  { name: 'postgres', folder: join(FOLDER, 'postgres'), kinds: POSTGRES },
  {
    name: 'postgres with components',
    folder: join(complete, 'postgres'),
    kinds: [...POSTGRES, ...MONITORING, 'ScaledObject'],
  },
  { name: 'migration', folder: join(FOLDER, 'migration'), kinds: ['Job'] },
]

const MODELS: Readonly<Record<string, string>> = {
  'keda.sh': '@kubernetes-models/keda',
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator',
}

/**
 * @throws an error that says what is invalid
 * @returns the paths of fields that the schema does not know
 */
async function validate(manifest: Manifest): Promise<string[]> {
  const [group = ''] = manifest.apiVersion.split('/')
  const path = `${MODELS[group] ?? 'kubernetes-models'}/${manifest.apiVersion}/${manifest.kind}`
  const loaded = (await import(path)) as Record<string, new (data: unknown) => { validate(): void }>
  const Model = loaded[manifest.kind]
  assert.ok(Model, path)
  const unread = new Set<string>()
  // The constructor copies the manifest's values, so this loop replaces the copies.
  const model = new Model(manifest)
  for (const [key, value] of Object.entries(manifest))
    Reflect.set(model, key, watched(value, `/${key}`, unread))
  model.validate()
  return [...unread]
}

/** The compiled schemas allow unknown fields, but never read them. So this function records which fields they read. */
function watched(value: unknown, path: string, unread: Set<string>): unknown {
  if (typeof value !== 'object' || value === null) return value
  const target: Record<string, unknown> | unknown[] = Array.isArray(value) ? [] : {}
  for (const [key, inner] of Object.entries(value)) {
    const at = `${path}/${key}`
    unread.add(at)
    ;(target as Record<string, unknown>)[key] = watched(inner, at, unread)
  }
  return new Proxy(target, {
    get: (object, key) => {
      if (typeof key === 'string') unread.delete(`${path}/${key}`)
      return Reflect.get(object, key) as unknown
    },
  })
}

for (const { name, folder, kinds } of OVERLAYS) {
  test(`${name}: each manifest is valid and in the namespace`, async () => {
    const manifests = render(folder)
    assert.deepEqual(
      manifests.map(({ kind }) => kind),
      kinds,
    )
    for (const manifest of manifests) {
      const label = `${manifest.kind} ${manifest.metadata.name}`
      assert.deepEqual(await validate(manifest), [], label)
      if (manifest.kind !== 'Namespace') assert.equal(manifest.metadata.namespace, 'parley', label)
    }
  })
}

test('the validation finds wrong types, missing fields and unknown fields', async () => {
  const [service] = render(join(FOLDER, 'postgres')).filter(({ kind }) => kind === 'Service')
  assert.ok(service)
  await assert.rejects(validate({ ...service, spec: { ports: [{ port: 'many' }] } }))
  await assert.rejects(validate({ ...service, spec: { ports: [{ name: 'http' }] } }))
  assert.deepEqual(await validate({ ...service, spec: { ports: [{ port: 1, targetport: 2 }] } }), [
    '/spec/ports/0/targetport',
  ])
})

const hasKubectl = spawnSync('kubectl', ['kustomize', '--help']).status === 0

test('kubectl renders the same', { skip: hasKubectl ? false : 'kubectl is not there' }, () => {
  for (const { name, folder } of OVERLAYS) {
    const { stdout, stderr, status } = spawnSync('kubectl', ['kustomize', folder], { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    const text = stdout.replaceAll(/\bparley-[0-9a-z]{10}$/gm, 'parley')
    const rendered = parseAllDocuments(text).map((document) => document.toJS() as Manifest)
    assert.deepEqual(sorted(rendered), sorted(render(folder)), name)
  }
})

/** Kustomize orders resources and lists in its own way, so both sides are sorted before they are compared. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(sorted).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
  }
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, inner]) => [key, sorted(inner)] as const)
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
}

type Part = Readonly<Record<string, unknown>>

function at<T = unknown>(part: unknown, path: string): T {
  return path.split('.').reduce<unknown>((inner, key) => (inner as Part | undefined)?.[key], part) as T
}

function specOf<T = Part>(overlay: string, kind: string): T {
  const folder = OVERLAYS.find(({ name }) => name === overlay)?.folder ?? ''
  const found = render(folder).find((one) => one.kind === kind)
  assert.ok(found, kind)
  return found.spec as T
}

interface Named {
  readonly name: string
  readonly value: string
  readonly mountPath: string
}

function podOf(overlay: string, kind: string) {
  const template = at(specOf(overlay, kind), 'template')
  const container = at<Part>(template, 'spec.containers.0')
  return {
    labels: at(template, 'metadata.labels'),
    spec: at<Part>(template, 'spec'),
    container,
    env: container.env as readonly Named[],
    volumeMounts: container.volumeMounts as readonly Named[],
    volumes: at<readonly Named[]>(template, 'spec.volumes'),
  }
}

const pods = [
  podOf('sqlite', 'Deployment'),
  podOf('postgres', 'Deployment'),
  podOf('migration', 'Job'),
] as const
const servers = [pods[0], pods[1]]

test('pods run without privileges, as the user of the image, and write only to volumes', () => {
  const dockerfile = read('Dockerfile')
  assert.match(dockerfile, /^USER 1000:1000$/m)
  for (const { spec, container, volumeMounts, volumes } of pods) {
    assert.deepEqual([spec.automountServiceAccountToken, spec.enableServiceLinks], [false, false])
    const { runAsNonRoot, runAsUser, fsGroup, seccompProfile } = spec.securityContext as Part
    assert.deepEqual([runAsNonRoot, runAsUser, fsGroup], [true, 1000, 1000])
    assert.deepEqual(seccompProfile, { type: 'RuntimeDefault' })
    assert.deepEqual(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    assert.ok(volumeMounts.some(({ mountPath }) => mountPath === '/tmp'))
    const mounts = volumeMounts.map(({ name }) => name)
    assert.deepEqual(mounts.toSorted(), volumes.map(({ name }) => name).toSorted())
    assert.equal(container.image, `registry.example.com/parley:${version}`)
  }
  const data = pods[0].volumeMounts.find(({ name }) => name === 'data')
  assert.ok(dockerfile.includes(`VOLUME ${data?.mountPath}\n`))
})

test('the program reads each variable, and secrets from files', () => {
  const folder = mkdtempSync(join(complete, 'secrets-'))
  for (const { env: variables } of pods) {
    const env: Record<string, string> = {}
    for (const { name, value } of variables) {
      if (name === 'NODE_OPTIONS') continue
      if (name === 'PARLEY_CONFIG') {
        assert.equal(value, '/etc/parley/parley.config.json')
        env[name] = join(FOLDER, 'base/parley.config.json')
        continue
      }
      const [, file = ''] = /^\/run\/secrets\/parley\/([a-z-]+)$/.exec(value) ?? []
      env[name] = join(folder, file)
      writeFileSync(
        env[name],
        name === 'DATABASE_URL_FILE' ? 'postgres://u:p@db/parley' : `in ${name}`.replace(' ', '-'),
      )
    }
    env.OPENAI_API_KEY_FILE ??= env.DATABASE_URL_FILE ?? ''
    const { settings, access, adminToken } = loadConfiguration(env)
    if (env.DATABASE_URL_FILE) assert.equal(settings.database, 'postgres://u:p@db/parley')
    if (env.PARLEY_CONFIG === undefined) continue
    assert.equal(settings.shutdown.listen_seconds, 5)
    assert.equal(access.get('openai')?.apiKey, 'in-OPENAI_API_KEY_FILE')
    assert.equal(adminToken, 'in-PARLEY_ADMIN_TOKEN_FILE')
  }
})

test('pods have time for the pause, the shutdown and the jobs', () => {
  const given = JSON.parse(read('deploy/kubernetes/base/parley.config.json')) as Record<string, never>
  const { usable, problems } = checkShape(merge(DEFAULTS, given) as Settings)
  assert.deepEqual(problems, [])
  const { shutdown, jobs } = usable
  for (const { spec, container } of servers) {
    const pause = at<number>(container, 'lifecycle.preStop.sleep.seconds') ?? 0
    const needed = pause + shutdown.listen_seconds + jobs.drain_seconds + 3
    assert.ok(Number(spec.terminationGracePeriodSeconds) >= needed, `${needed} s`)
  }
})

const MIB: Readonly<Record<string, number>> = { Mi: 1, Gi: 1024 }
function mib(text = ''): number {
  const [, count = '', unit = ''] = /^(\d+)(Mi|Gi)$/.exec(text) ?? []
  return Number(count) * (MIB[unit] ?? Number.NaN)
}

test('the heap follows the memory limit and leaves room for threads, by an option that Node accepts', () => {
  for (const { env, container } of servers) {
    const options = env.find(({ name }) => name === 'NODE_OPTIONS')?.value ?? ''
    const [, percent = ''] = /--max-old-space-size-percentage=(\d+)/.exec(options) ?? []
    const limit = mib(at(container, 'resources.limits.memory'))
    const heap = (limit * Number(percent)) / 100
    assert.ok(heap >= 512 && heap + 2 * DEFAULTS.cpu.thread_heap_mb <= limit, `${heap} of ${limit} MiB`)
    assert.ok(mib(at(container, 'resources.requests.memory')) <= limit)
    const heapOf = (NODE_OPTIONS: string) => {
      const script = 'console.log(v8.getHeapStatistics().heap_size_limit)'
      const { stdout, stderr } = spawnSync(process.execPath, ['-e', script], {
        env: { NODE_OPTIONS },
        encoding: 'utf8',
      })
      assert.equal(stderr, '')
      return Number(stdout)
    }
    const half = heapOf(options.replace(percent, String(Number(percent) / 2)))
    assert.ok(half < heapOf(options))
  }
})

test('selectors choose the servers, ports and paths exist, and the scrape job has the name of the rules', () => {
  const { name: port, containerPort } = at<Part>(pods[0].container, 'ports.0')
  assert.match(read('Dockerfile'), new RegExp(`^EXPOSE ${containerPort}$`, 'm'))
  const { labels, spec, container } = pods[1]
  assert.notDeepEqual(labels, pods[2].labels)
  const of = (kind: string) => specOf('postgres with components', kind)
  const spread = spec.topologySpreadConstraints as readonly unknown[]
  assert.equal(spread.length, 2)
  const [service, monitor] = [of('Service'), of('ServiceMonitor')]
  for (const chosen of [
    service.selector,
    ...[of('Deployment'), of('PodDisruptionBudget'), monitor].map((one) => at(one, 'selector.matchLabels')),
    ...spread.map((one) => at(one, 'labelSelector.matchLabels')),
  ]) {
    assert.deepEqual(chosen, labels)
  }
  assert.equal(at(service, 'ports.0.targetPort'), port)
  const { port: scraped, path } = at<Part>(monitor, 'endpoints.0')
  assert.deepEqual([scraped, path], [at(service, 'ports.0.name'), '/metrics'])
  for (const [probe, path] of [
    ['startupProbe', '/healthz'],
    ['readinessProbe', '/readyz'],
    ['livenessProbe', '/healthz'],
  ] as const) {
    assert.deepEqual(at(container, `${probe}.httpGet`), { path, port })
  }
  const found = render(join(complete, 'postgres')).find(({ kind }) => kind === 'Service')
  assert.ok(read('deploy/prometheus-alerts.yml').includes(`job="${found?.metadata.name}"`))
})

test('the rules are those of deploy/prometheus-alerts.yml', () => {
  assert.deepEqual(
    specOf('sqlite with components', 'PrometheusRule'),
    parse(read('deploy/prometheus-alerts.yml')),
  )
})

test('KEDA scales on metrics that exist, and alone decides about the number of nodes', () => {
  const { triggers, scaleTargetRef, minReplicaCount } = specOf('postgres with components', 'ScaledObject')
  assert.deepEqual(
    (triggers as readonly unknown[]).map((trigger) => at(trigger, 'metadata.query')),
    ['max(parley_queue_jobs{job="parley"})', 'max(parley_queue_oldest_age_seconds{job="parley"})'],
  )
  const page = read('docs/monitoring.md')
  for (const name of ['parley_queue_jobs', 'parley_queue_oldest_age_seconds'])
    assert.ok(page.includes(`\`${name}\``))
  assert.equal(at(scaleTargetRef, 'name'), 'parley')
  assert.equal(specOf('postgres', 'Deployment').replicas, minReplicaCount)
  assert.equal(specOf('postgres with components', 'Deployment').replicas, undefined)
})

test('no manifest contains a secret, and the recipe creates the one that they refer to', () => {
  const page = read('docs/recipes/kubernetes.md')
  const files = pods.flatMap(({ volumes, env }) => {
    assert.ok(volumes.some((volume) => at(volume, 'secret.secretName') === 'parley'))
    return env.filter(({ name }) => name.endsWith('_FILE')).map(({ value }) => value)
  })
  for (const file of files) assert.ok(page.includes(`--from-file=${file.split('/').at(-1)}=`), file)
  const all = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
  for (const name of all.filter((one) => one.endsWith('.yaml'))) {
    assert.doesNotMatch(readFileSync(join(FOLDER, name), 'utf8'), /^kind: Secret$/m, name)
  }
})
