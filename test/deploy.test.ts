/**
 * Tests that the container and systemd files agree with the program: a variable, path or limit that is renamed in only one
 * place fails here. No container is started. docs/install.md says what was tested by hand.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { loadConfiguration } from '../src/config/load.ts'
import { DEFAULTS, type Environment } from '../src/config/settings.ts'
import { CLONE, installation } from './process/server-process.ts'

const read = (name: string) => readFileSync(join(CLONE, name), 'utf8')
const manifest = JSON.parse(read('package.json')) as { bin: { parley: string }; engines: { node: string } }

interface Instruction {
  readonly name: string
  readonly text: string
}

/** A backslash at the end of a line continues the instruction. */
const image: readonly Instruction[] = read('Dockerfile')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter((line) => /^[A-Z]+ /.test(line))
  .map((line) => ({ name: line.split(' ', 1)[0] ?? '', text: line.slice(line.indexOf(' ') + 1) }))

function instruction(name: string): string {
  const found = image.findLast((one) => one.name === name)
  assert.ok(found, `the Dockerfile has no ${name}`)
  return found.text
}

const imageEnvironment = Object.fromEntries(
  instruction('ENV')
    .split(' ')
    .map((pair) => pair.split('=', 2) as [string, string]),
)

interface Service {
  readonly environment: Readonly<Record<string, string>>
  readonly stop_grace_period: string
  readonly ports: readonly string[]
  readonly volumes?: readonly string[]
}
const compose = parse(read('compose.yaml')) as {
  services: { parley: Service; postgres: Service }
  volumes: Record<string, null>
}

function interpolated(text: string, given: Environment): string {
  return text.replaceAll(/\$\{(\w+)(?::([-?])([^}]*))?\}/g, (_whole, name: string, kind, rest = '') => {
    const value = given[name]
    if (value) return value
    assert.equal(kind, '-', `${name}: ${rest}`)
    return rest
  })
}

/** Asserts that the program reads each of the variables. Returns the settings that they produce. */
function configured(env: Environment) {
  const asked = new Set<PropertyKey>()
  const watched = new Proxy(env, {
    get: (target, name) => {
      asked.add(name)
      return Reflect.get(target, name)
    },
  })
  const configuration = loadConfiguration(watched)
  assert.deepEqual(
    Object.keys(env).filter((name) => !asked.has(name)),
    [],
    'variables that the program does not know',
  )
  return configuration
}

/** Also reads commented-out lines of the form `# A=b`. */
function assignments(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/^(?:# )?([A-Z_]+)=('?)(.*)\2$/gm)].map(([, name = '', , value = '']) => [name, value]),
  )
}

test('the image starts what the package starts, in the place that its variables name', () => {
  const { settings } = configured({ ...imageEnvironment, OPENAI_API_KEY: 'sk-x' })
  assert.deepEqual([settings.host, String(settings.port)], ['0.0.0.0', instruction('EXPOSE')])
  const [, ...args] = JSON.parse(instruction('ENTRYPOINT')) as string[]
  assert.equal(args.at(-1), `/opt/parley/${manifest.bin.parley}`)
  assert.ok(
    image.some(({ text }) => text.includes(`ln -s /opt/parley/${manifest.bin.parley} /usr/local/bin/parley`)),
  )
  assert.equal(instruction('USER'), '1000:1000')
  assert.equal(DEFAULTS.database, 'sqlite:./data/parley.db')
  assert.equal(instruction('VOLUME'), `${instruction('WORKDIR')}/data`)
  const [, major = ''] = /^ARG NODE_IMAGE=node:(\d+)-/m.exec(read('Dockerfile')) ?? []
  assert.match(manifest.engines.node, new RegExp(`>=${major}\\.`))
})

test('everything that the image is built from exists, and .dockerignore does not exclude it', () => {
  const [all, ...letIn] = read('.dockerignore')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  assert.equal(all, '*')
  const copied = image
    .filter(({ name, text }) => name === 'COPY' && !text.startsWith('--from'))
    .flatMap(({ text }) => text.split(' ').slice(0, -1))
  assert.ok(copied.length >= 7)
  for (const path of copied) {
    assert.ok(existsSync(join(CLONE, path)), path)
    assert.ok(letIn.includes(`!${path}`), `.dockerignore leaves out ${path}`)
  }
})

test("the image's health check exits with 0 for a running server and with 1 without one", {
  timeout: 60_000,
}, async (t) => {
  const [, command = ''] = /CMD (\[.*\])$/.exec(instruction('HEALTHCHECK')) ?? []
  const [node, ...args] = JSON.parse(command) as string[]
  assert.equal(node, 'node')
  const place = await installation(t)
  const server = await place.start()
  const env = { PORT: new URL(server.url).port }
  const check = () => place.spawn([process.execPath, ...args], { env }).exited
  assert.equal((await check()).code, 0)
  await server.stop()
  assert.equal((await check()).code, 1)
})

test('compose provides Postgres, a token, a port, and time to stop', () => {
  const { parley, postgres } = compose.services
  const given = { POSTGRES_PASSWORD: 'c0ffee', PARLEY_ADMIN_TOKEN: 'token', OPENAI_API_KEY: 'sk-x' }
  const environment = Object.fromEntries(
    Object.entries(parley.environment).map(([name, value]) => [name, interpolated(value, given)]),
  )
  const { settings, adminToken, access, simulated } = configured(environment)
  const { POSTGRES_USER: user, POSTGRES_DB: database } = postgres.environment
  assert.equal(settings.database, `postgres://${user}:c0ffee@postgres/${database}`)
  assert.deepEqual([adminToken, access.get('openai')?.apiKey, simulated], ['token', 'sk-x', false])
  const { PARLEY_SIMULATOR: simulator = '' } = parley.environment
  assert.deepEqual(
    [interpolated(simulator, {}), interpolated(simulator, { PARLEY_SIMULATOR: 'true' })],
    ['false', 'true'],
  )
  assert.throws(() => interpolated(parley.environment.DATABASE_URL ?? '', {}), /POSTGRES_PASSWORD/)
  assert.equal(parley.ports[0]?.split(':').at(-1), instruction('EXPOSE'))
  assert.ok(Number.parseInt(parley.stop_grace_period, 10) > DEFAULTS.jobs.drain_seconds)
  assert.deepEqual(
    postgres.volumes?.map((volume) => volume.split(':', 1)[0]),
    Object.keys(compose.volumes),
  )
  const mounted = `${instruction('WORKDIR')}/parley.config.json`
  assert.ok(read('compose.yaml').includes(`./parley.config.json:${mounted}:ro`))
})

test('the unit starts an existing command, in time and with options that Node accepts', () => {
  const unit = new Map(
    [...read('deploy/parley.service').matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value = '']) => [
      name,
      value,
    ]),
  )
  assert.equal(unit.get('ExecStart'), '/usr/local/bin/parley serve')
  assert.equal(unit.get('WorkingDirectory'), `/var/lib/${unit.get('StateDirectory')}`)
  assert.ok(Number(unit.get('TimeoutStopSec')) > DEFAULTS.jobs.drain_seconds)
  assert.equal(unit.get('MemoryDenyWriteExecute'), undefined, 'V8 needs it')
  const [, options = ''] = /^NODE_OPTIONS=(.*)$/.exec(unit.get('Environment') ?? '') ?? []
  assert.ok(options.includes('--max-semi-space-size'))
  const node = spawnSync(process.execPath, ['--version'], { env: { NODE_OPTIONS: options } })
  assert.equal(node.status, 0, String(node.stderr))
})

test('the proxies send all requests of an operator to one node, whose figures the dashboard shows', () => {
  const nginx = read('deploy/nginx.conf')
  assert.match(nginx, /upstream operators \{\s*ip_hash;/)
  assert.ok(nginx.slice(nginx.indexOf('listen 127.0.0.1:8081')).match(/proxy_pass/g)?.length === 2)
  assert.doesNotMatch(nginx.slice(nginx.indexOf('listen 127.0.0.1:8081')), /proxy_pass http:\/\/parley/)
  assert.match(read('deploy/Caddyfile'), /^http:\/\/127\.0\.0\.1:8081 \{.*lb_policy ip_hash/ms)
})

test('the unit makes the folder of the Unix socket in docs/proxy.md, and lets the group into it', () => {
  const [, folder] = /HOST=unix:\/run\/(\w+)\//.exec(read('docs/proxy.md')) ?? []
  const unit = read('deploy/parley.service')
  assert.match(unit, new RegExp(`^RuntimeDirectory=${folder}$`, 'm'))
  assert.match(unit, /^RuntimeDirectoryMode=0750$/m)
})

test('the program reads the variables in the environment files of docs/install.md', () => {
  const page = read('docs/install.md')
  const [, systemd = ''] = /```ini\n# \/etc\/parley\/parley\.env\n(.*?)```/s.exec(page) ?? []
  const shown = assignments(systemd)
  assert.ok(Object.keys(shown).length >= 4)
  // The guide lets a shell read this file before it runs `parley keys create`, so the file must be a valid shell script.
  const url = shown.DATABASE_URL ?? ''
  assert.match(url, /&/)
  const sourced = spawnSync('sh', [
    '-c',
    `set -a\n${systemd.replaceAll(/^# /gm, '')}\nprintf %s "$DATABASE_URL"`,
  ])
  assert.equal(sourced.stdout.toString(), url)
  const { PARLEY_CONFIG: file, ...others } = shown
  assert.equal(file, '/etc/parley/parley.config.json')
  configured({ ...others, OPENAI_API_KEY: 'sk-x' })
  const [, dotEnv = ''] = /```ini\n# \.env\n(.*?)```/s.exec(page) ?? []
  const used = JSON.stringify(compose)
  for (const name of Object.keys(assignments(dotEnv))) assert.ok(used.includes(`\${${name}:`), name)
})
