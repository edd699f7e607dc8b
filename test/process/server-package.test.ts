/**
 * Tests the server as users get it: packed, installed globally in a clean prefix, used through its command, upgraded and
 * removed. The server runs on the Node that runs the tests, and on those in TEST_NODES: paths of node binaries, separated as in
 * a PATH.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { post, signedCallback } from './listener.ts'
import { ownPath, type Packed, pack, succeed } from './packages.ts'
import { CLONE, type Ended, type Installation, installation, type Server } from './server-process.ts'

const NODES = [process.execPath, ...(process.env.TEST_NODES ?? '').split(delimiter).filter(Boolean)]
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const NEXT = '99.0.0'
const CARRIED =
  /^dist\/(src|client\/src|json-schema\/src)\/.+\.js$|^dist\/src\/dashboard\/page\/.+\.css$|^docs\/(internals\/|recipes\/)?(README|[a-z-]+)\.md$/
/** The cache of npm contains what `npm ci` has downloaded, which is enough. */
const INSTALL_OPTIONS = ['--prefer-offline', '--no-audit', '--no-fund']

interface Command {
  readonly place: Installation
  readonly prefix: string
  readonly folder: string
  /** The PATH of the command begins with this Node and the prefix, and contains nothing of this project. */
  readonly env: { readonly PATH: string }
  npm(...args: readonly string[]): Promise<Ended>
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended>
  serve(): Promise<Server>
}

async function commandOn(t: TestContext, node: string): Promise<Command> {
  const place = await installation(t)
  const prefix = join(place.folder, 'prefix')
  const env = { PATH: [join(prefix, 'bin'), dirname(node), ...ownPath()].join(delimiter) }
  return {
    place,
    prefix,
    folder: join(prefix, 'lib/node_modules/parley'),
    env,
    npm: (...args) => succeed(place, ['npm', ...args, '--global', '--prefix', prefix], { env }),
    run: (args, more = {}) => succeed(place, ['parley', ...args], { env: { ...env, ...more } }),
    serve: () => place.startAs(['parley', 'serve'], { env }),
  }
}

/** The next version is the same package, packed again from its installation. */
async function packNext({ place, folder }: Command): Promise<Packed> {
  const next = join(place.folder, 'next')
  await cp(folder, next, { recursive: true, filter: (path) => !path.includes('/parley/node_modules') })
  const manifest = JSON.parse(await readFile(join(next, 'package.json'), 'utf8')) as object
  await writeFile(join(next, 'package.json'), JSON.stringify({ ...manifest, version: NEXT }))
  return pack(place, [next, '--ignore-scripts'], place.folder)
}

/** This timeout of npm only has to end what hangs. On a busy machine, downloads took two minutes. */
const NPM_MS = 600_000

test('the packed server', { timeout: (1 + NODES.length) * NPM_MS }, async (t) => {
  const packed = await pack(await installation(t), [], CLONE)
  await t.test('holds what runs and what is read, and all that it imports is installed with it', () => {
    holdsWhatItNeeds(packed)
  })
  for (const node of NODES) {
    await t.test(`is installed, used, upgraded and removed with ${node}`, { timeout: NPM_MS }, async (t) => {
      await liveWith(await commandOn(t, node), packed)
    })
  }
})

function holdsWhatItNeeds({ paths }: Packed): void {
  const others = paths.filter((path) => !CARRIED.test(path) && !path.startsWith('deploy/kubernetes/'))
  assert.deepEqual(others.toSorted(), [
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'deploy/Caddyfile',
    'deploy/grafana-dashboard.json',
    'deploy/nginx.conf',
    'deploy/parley.service',
    'deploy/prometheus-alerts.yml',
    'package.json',
    'parley.schema.json',
  ])
  assert.deepEqual(
    paths.filter((path) => /\.test\.|(^|\/)test\/|contract\//.test(path)),
    [],
  )
  assert.ok(paths.includes('docs/settings.md'))
  assert.ok(paths.includes('deploy/kubernetes/base/deployment.yaml'))
  const { dependencies } = JSON.parse(readFileSync(join(CLONE, 'package.json'), 'utf8'))
  const imported = paths.filter((path) => path.endsWith('.js')).flatMap(packagesNamedIn)
  assert.ok(imported.includes('fastify'))
  assert.deepEqual(
    [...new Set(imported)].filter((name) => !Object.hasOwn(dependencies, name)),
    [],
    'an import that would not be installed with it',
  )
}

function packagesNamedIn(path: string): readonly string[] {
  const text = readFileSync(join(CLONE, path), 'utf8')
  return [...text.matchAll(/^(?:import|export) (?:[^'"]* from )?'([^.'][^']*)';$/gm)]
    .map(([, name = '']) => name.split('/', name.startsWith('@') ? 2 : 1).join('/'))
    .filter((name) => !name.startsWith('node:'))
}

async function liveWith(command: Command, packed: Packed): Promise<void> {
  const { place, npm, run, serve, env } = command
  await npm('install', ...INSTALL_OPTIONS, packed.file)
  const { version } = JSON.parse(readFileSync(join(CLONE, 'package.json'), 'utf8')) as { version: string }
  assert.equal((await run(['--version'])).stdout, `${version}\n`)
  assert.match((await run(['check'])).stdout, /^ok +database: /m)
  assert.match((await run(['completion', 'bash'])).stdout, /complete .*parley/)

  const server = await serve()
  const key = await server.firstKey()
  const reply = await server.caller(key).single('From a package')
  assert.match(String(reply.body.data?.result?.response_content), /From a package/)
  const jobId = reply.body.data?.job_id ?? ''
  await servesItsPages(server.url)
  await asksTheServer(command, { PARLEY_URL: server.url, PARLEY_API_KEY: key })
  await listens(command)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  assert.doesNotMatch(server.program.stderr, /Warning/)

  const next = await packNext(command)
  await npm('install', ...INSTALL_OPTIONS, next.file)
  assert.equal((await run(['--version'])).stdout, `${NEXT}\n`)
  const upgraded = await serve()
  assert.match(upgraded.program.stdout, new RegExp(`^Parley ${NEXT} listening`, 'm'))
  const read = await upgraded.caller(key).read(jobId)
  assert.deepEqual(read.body.data?.result, reply.body.data?.result, 'the data are those of the older one')
  await upgraded.stop()

  await npm('uninstall', 'parley')
  assert.deepEqual(await filesIn(command.prefix), [])
  assert.ok(existsSync(place.database), 'the data stay')
  assert.equal((await place.spawn(['sh', '-c', 'parley --version'], { env }).exited).code, 127)
}

/** The server must serve the dashboard with all its modules, and the page of the API reference with its script. */
async function servesItsPages(url: string): Promise<void> {
  for (const [path, least] of [
    ['/dashboard', 60],
    ['/docs', 1],
  ] as const) {
    const page = await fetch(url + path)
    assert.equal(page.status, 200)
    const links = [...(await page.text()).matchAll(/(?:src|href)="([^":]+)"/g)].map(([, link = '']) => link)
    assert.ok(links.length >= least, `${path} has ${links.length} links`)
    for (const link of links) {
      const file = await fetch(new URL(link, `${url}${path}/`))
      assert.deepEqual([file.status, (await file.text()).length > 0], [200, true], link)
    }
  }
}

async function asksTheServer(
  { place, run }: Command,
  server: Readonly<Record<string, string>>,
): Promise<void> {
  assert.match((await run(['send', 'Hello'], server)).stdout, /Hello/)
  const job = { messages: [{ role: 'user', content: 'In a batch' }], response_format: { format: 'text' } }
  await writeFile(join(place.folder, 'jobs.jsonl'), JSON.stringify({ ...job, model: 'gpt-5-mini' }))
  await run(['batch', 'jobs.jsonl'], server)
  assert.match(await readFile(join(place.folder, 'jobs.jsonl.results.jsonl'), 'utf8'), /In a batch/)
}

async function listens({ place, env }: Command): Promise<void> {
  const listener = place.spawn(['parley', 'listen', '--port', '0', '--secret', SECRET], { env })
  const [, url = ''] = await listener.line(/listens for callbacks on (http:\/\/127\.0\.0\.1:\d+)\n/)
  assert.equal(await post(url, signedCallback(SECRET)), 200)
  await listener.line(/verified: job /)
  listener.kill('SIGTERM')
  assert.equal((await listener.exited).code, 0)
}

async function filesIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => !entry.isDirectory()).map(({ parentPath, name }) => join(parentPath, name))
}
