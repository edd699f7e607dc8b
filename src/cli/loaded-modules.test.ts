/** Tests that commands load only what they need: Ajv alone takes longer to load than all other modules of most commands. */
import assert from 'node:assert/strict'
import { type SpawnSyncOptionsWithStringEncoding, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '../../test/parley.ts'

const pathOf = (file: string) => fileURLToPath(new URL(file, import.meta.url))
const MAIN = pathOf('../main.ts')
/** Prints which modules of Ajv and of the SQLite store are loaded. */
const WATCH = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  registerHooks({
    resolve(name, context, next) {
      if (/^ajv|\\/sqlite\\//.test(name)) console.error('loads ' + name)
      return next(name, context)
    },
  })`)}`

/** Returns the exit code, and what Node printed about its modules. */
function watched(
  args: readonly string[],
  options: SpawnSyncOptionsWithStringEncoding = { encoding: 'utf8' },
) {
  const { status, stderr } = spawnSync(process.execPath, ['--import', WATCH, ...args], options)
  return { status, stderr }
}

test('commands do not load Ajv', async (t) => {
  const commands = [
    ['send --help', 0],
    ['listen --help', 0],
    ['keys create --account acme --tier user_max', 0],
    ['keys list', 0],
    ['accounts list', 0],
    ['jobs cancel 01a2022c-e42c-7000-b945-ed383f3cf1ca', 1],
    ['audit --json', 0],
  ] as const
  const cwd = await temporaryFolder(t)
  // All commands run in one process, because starting a process takes long. Each prints its exit code after its modules.
  const run = `
    const { runCommandLine } = await import(${JSON.stringify(pathOf('program.ts'))})
    for (const [command] of ${JSON.stringify(commands)})
      console.error('\\nended with ' + (await runCommandLine(command.split(' '))))`
  const env = { ...process.env, DATABASE_URL: 'sqlite:parley.db' }
  const { stderr } = watched(['--input-type=module', '--eval', run], { cwd, env, encoding: 'utf8' })
  const printed = stderr.split(/(?<=\nended with \d+)\n/)
  for (const [at, [command, code]] of commands.entries()) {
    await t.test(`parley ${command}`, () => {
      assert.match(printed[at] ?? '', new RegExp(`\nended with ${code}$`))
      assert.doesNotMatch(printed[at] ?? '', /loads ajv/)
    })
  }
})

for (const [what, args] of [
  ['parley --version loads nothing of Ajv and SQLite', [MAIN, '--version']],
  [
    'the thread that renews a lease on Postgres loads nothing of Ajv and SQLite',
    [pathOf('../app/heartbeat.ts')],
  ],
] as const) {
  test(what, () => {
    const { status, stderr } = watched(args)
    assert.equal(status, 0, stderr)
    assert.doesNotMatch(stderr, /loads (ajv|\S+sqlite)/)
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
