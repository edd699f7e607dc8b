/** Tests that commands load only what they need: Ajv alone takes longer to load than all other modules of most commands. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '../../test/parley.ts'

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url))
/** Prints which modules of Ajv and of the SQLite store are loaded. */
const WATCH = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  registerHooks({
    resolve(name, context, next) {
      if (/^ajv|\\/sqlite\\//.test(name)) console.error('loads ' + name)
      return next(name, context)
    },
  })`)}`

for (const [command, code] of [
  ['--version', 0],
  ['send --help', 0],
  ['listen --help', 0],
  ['keys create --account acme --tier user_max', 0],
  ['keys list', 0],
  ['accounts list', 0],
  ['jobs cancel 01a2022c-e42c-7000-b945-ed383f3cf1ca', 1],
  ['audit --json', 0],
] as const) {
  test(`parley ${command} does not load Ajv`, async (t) => {
    const cwd = await temporaryFolder(t)
    const env = { ...process.env, DATABASE_URL: 'sqlite:parley.db' }
    const args = ['--import', WATCH, MAIN, ...command.split(' ')]
    const { status, stderr } = spawnSync(process.execPath, args, { cwd, env, encoding: 'utf8' })
    assert.equal(status, code, stderr)
    assert.doesNotMatch(stderr, /loads ajv/)
  })
}

for (const [what, args] of [
  ['parley --version', [MAIN, '--version']],
  [
    'the thread that renews a lease on Postgres',
    [fileURLToPath(new URL('../app/heartbeat-thread.ts', import.meta.url))],
  ],
] as const) {
  test(`${what} loads nothing of SQLite`, () => {
    const { status, stderr } = spawnSync(process.execPath, ['--import', WATCH, ...args], { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    assert.doesNotMatch(stderr, /loads \S+sqlite/)
  })
}

/** Prints whether a new thread has a compile cache. */
const WATCH_THREADS = `data:text/javascript,${encodeURIComponent(`
  import { getCompileCacheDir } from 'node:module'
  import { isMainThread } from 'node:worker_threads'
  if (!isMainThread) console.error('a thread, compile cache: ' + (getCompileCacheDir() !== undefined))`)}`

test('the threads of parley serve have the compile cache', async (t) => {
  const cwd = await temporaryFolder(t)
  const { NODE_COMPILE_CACHE: _, ...inherited } = process.env
  const env = { ...inherited, TMPDIR: cwd, DATABASE_URL: 'sqlite:parley.db', PORT: '0' }
  const server = spawn(process.execPath, ['--import', WATCH_THREADS, MAIN, 'serve'], { cwd, env })
  const exited = once(server, 'exit')
  let printed = ''
  for await (const part of server.stderr.setEncoding('utf8')) {
    printed += part
    if (/a thread, compile cache: (true|false)/.test(printed)) break
  }
  server.kill('SIGKILL')
  await exited
  assert.match(printed, /a thread, compile cache: true/)
})

test('parley serve uses what other processes have compiled', async (t) => {
  const cwd = await temporaryFolder(t)
  const env = {
    ...process.env,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(cwd, 'cache'),
    NODE_DEBUG_NATIVE: 'COMPILE_CACHE',
    DATABASE_URL: 'sqlite:parley.db',
    PORT: '0',
  }
  const service = new URL('../app/create-service.ts', import.meta.url).href
  spawnSync(process.execPath, ['--import', service, '--eval', ''], { cwd, env })
  const server = spawn(process.execPath, [MAIN, 'serve'], { cwd, env })
  const exited = once(server, 'exit')
  let said = ''
  server.stderr.setEncoding('utf8').on('data', (part: string) => {
    said += part
  })
  for await (const part of server.stdout) if (String(part).includes('listening on')) break
  server.kill('SIGKILL')
  await exited
  assert.match(said, /code cache for .+ was accepted/)
  assert.doesNotMatch(said, /code cache for .+ was rejected/)
})
