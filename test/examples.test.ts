/**
 * Runs each of examples/ as its header says, outside the clone, with a real server and real callbacks. An example that needs a
 * program missing on this machine is skipped with a reason.
 */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { copyFile, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { basename, join } from 'node:path'
import { text } from 'node:stream/consumers'
import test, { type TestContext } from 'node:test'
import { makeSecret } from '../src/net/signing-secrets.ts'
import { reply, startModelServer } from './model-server.ts'
import { type Parley, startParley } from './parley.ts'
import { freshRealDatabase } from './postgres/database.ts'
import { post, signedCallback } from './process/listener.ts'
import { CLONE, type Installation, installation, type Program } from './process/server-process.ts'
import { eventually } from './support/eventually.ts'

const timeout = 60_000
const EXAMPLES = join(CLONE, 'examples')
const RECEIVING = /^receiving callbacks at (http:\S+)$/m

function missing(name: string, ...args: readonly string[]): string | false {
  return spawnSync(name, args).status === 0 ? false : `${name} is not installed on this machine`
}
const noPython = missing('python3', '-c', 'import sys; sys.exit(sys.version_info < (3, 9))')
const noShell = missing('sh', '-c', 'curl --version && openssl version')
const noNginx = missing('nginx', '-v')

interface Scene {
  readonly parley: Parley
  readonly place: Installation
  readonly env: Readonly<Record<string, string>>
}

/** @param upstream the base URL of a model server. Without it, the simulator answers */
async function scene(t: TestContext, upstream?: string): Promise<Scene> {
  const settings = { callbacks: { allow_networks: ['127.0.0.0/8'] } }
  const parley = await startParley(t, { settings, ...(upstream !== undefined && { upstream }) })
  const key = await parley.key()
  const secret = (await parley.store.secrets('user_max'))?.current ?? ''
  const env = { PARLEY_URL: parley.url, PARLEY_API_KEY: key, PARLEY_CALLBACK_SECRET: secret, PORT: '0' }
  return { parley, place: await installation(t), env }
}

async function run(
  { place, env }: Scene,
  [command, file]: readonly [command: string, file: string],
  over: Readonly<Record<string, string>> = {},
): Promise<Program> {
  const folder = join(place.folder, 'project')
  await mkdir(join(folder, 'node_modules'), { recursive: true })
  await copyFile(join(EXAMPLES, file), join(folder, basename(file)))
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  for (const name of ['express', 'zod']) {
    await symlink(join(CLONE, 'node_modules', name), join(folder, 'node_modules', name))
  }
  // The client's source needs no build. client-package.test.ts tests the built package.
  await mkdir(join(folder, 'client'))
  await writeFile(join(folder, 'client/package.json'), '{ "exports": "./src/index.ts" }')
  await symlink(join(CLONE, 'client/src'), join(folder, 'client/src'))
  await symlink('../client', join(folder, 'node_modules/parley-client'))
  return place.spawn([command, file], { cwd: folder, env: { ...env, ...over } })
}

async function printed(program: Program): Promise<string> {
  const { code } = await program.exited
  assert.equal(code, 0, program.stdout + program.stderr)
  assert.equal(program.stderr, '')
  return program.stdout
}

async function assertVerifies(url: string, secret: string): Promise<void> {
  const changed = signedCallback(secret)
  assert.equal(await post(url, signedCallback(makeSecret())), 401)
  assert.equal(await post(url, signedCallback(secret, { ageS: 310 })), 401)
  assert.equal(await post(url, { ...changed, body: changed.body.replace('ö', 'ø') }), 401)
  assert.equal(await post(url, signedCallback([makeSecret(), secret])), 204)
}

test("the index links to every example, and the documents' index links to it", async () => {
  const index = await readFile(join(EXAMPLES, 'README.md'), 'utf8')
  const entries = await readdir(EXAMPLES)
  const found = entries.filter((name) => !/^(README\.md|package\.json|node_modules)$/.test(name))
  const listed = [...index.matchAll(/^\| \[([^\]]+)\]/gm)].map(([, name]) => name)
  assert.deepEqual(listed.toSorted(), found.toSorted())
  assert.ok((await readFile(join(CLONE, 'docs/README.md'), 'utf8')).includes('](../examples/README.md)'))
})

test('express-callbacks.ts creates a batch and receives a callback for each job', { timeout }, async (t) => {
  const program = await run(await scene(t), [process.execPath, 'express-callbacks.ts'])
  const lines = (await printed(program)).split('\n')
  assert.match(lines[0] ?? '', RECEIVING)
  for (const river of ['Rhine', 'Nile', 'Amur']) {
    const answers = lines.filter((line) => line.startsWith(`${river}: `))
    assert.deepEqual(answers.length, 1, river)
    assert.match(answers[0] ?? '', new RegExp(`Say one thing about the ${river}\\.`))
  }
})

test('parley.py waits, cancels and verifies a callback', { timeout, skip: noPython }, async (t) => {
  const lines = (await printed(await run(await scene(t), ['python3', 'parley.py']))).split('\n')
  assert.match(lines[1] ?? '', /^waited: completed This is a simulated answer.*Name a river\./)
  assert.deepEqual(lines.slice(2), [
    'cancelled: failed cancelled',
    "verified callback: completed {'order': 7}",
    '',
  ])
})

test('parley.py also works with a model that answers at once', { timeout, skip: noPython }, async (t) => {
  const models = await startModelServer({}, t)
  const here = await scene(t, models.baseUrl)
  // The program tries to cancel a job. `Name a river` gets its answer only when that job and all others have ended.
  models.script = ({ body }) => (JSON.stringify(body).includes('Name a river') ? reply.stall() : undefined)
  void models.received(3).then(async () => {
    const ended = async () => (await here.parley.store.depth()).assigned === 1
    while (!(await ended())) t.signal.throwIfAborted()
    models.release()
  })
  const lines = (await printed(await run(here, ['python3', 'parley.py']))).split('\n')
  assert.deepEqual(lines.slice(2), [
    'not cancelled: completed',
    "verified callback: completed {'order': 7}",
    '',
  ])
})

for (const [command, file, skip] of [
  [process.execPath, 'express-callbacks.ts', false],
  ['python3', 'parley.py', noPython],
] as const) {
  test(`${file} rejects what its secret did not sign`, { timeout, skip }, async (t) => {
    // The program's secret is not the account's, so the program rejects the server's callbacks and keeps waiting.
    const PARLEY_CALLBACK_SECRET = makeSecret()
    const program = await run(await scene(t), [command, file], { PARLEY_CALLBACK_SECRET })
    const [, url = ''] = await program.line(RECEIVING)
    await assertVerifies(url, PARLEY_CALLBACK_SECRET)
  })
}

async function inetd(t: TestContext, env: Readonly<Record<string, string>>) {
  const reports: Promise<string>[] = []
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const child = spawn('sh', [join(EXAMPLES, 'parley.sh'), 'receive'], { env: { ...process.env, ...env } })
    // The script may leave a part of the request unread, and the caller a part of the response.
    for (const stream of [child.stdin, socket]) stream.on('error', () => {})
    socket.pipe(child.stdin)
    child.stdout.pipe(socket)
    reports.push(text(child.stderr))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return { url, reports }
}

test('parley.sh waits, cancels, and receives verified callbacks', { timeout, skip: noShell }, async (t) => {
  const here = await scene(t)
  const { url, reports } = await inetd(t, here.env)
  const said = await printed(await run(here, ['sh', 'parley.sh'], { PARLEY_CALLBACK_URL: url }))
  const [, first, second] =
    /^created (\S+)\nwaited: completed\ncreated (\S+)\ncancelled: failed, cancelled\n$/.exec(said) ?? []
  assert.ok(first && second, said)
  await eventually(
    async () => reports.length,
    (count) => count === 2,
    { signal: t.signal },
  )
  assert.deepEqual((await Promise.all(reports)).toSorted(), [
    `verified callback: job ${first} completed\n`,
    `verified callback: job ${second} failed\n`,
  ])
  await assertVerifies(url, here.env.PARLEY_CALLBACK_SECRET ?? '')
})

test('parley.sh prints what the server rejects, and fails', { timeout, skip: noShell }, async (t) => {
  const program = await run(await scene(t), ['sh', 'parley.sh'], { PARLEY_API_KEY: 'prl_none' })
  assert.equal((await program.exited).code, 1)
  assert.match(program.stderr, /API key is required/)
  assert.equal(program.stdout, '')
})

test('zod-answers.ts gets a typed answer', { timeout }, async (t) => {
  const said = await printed(await run(await scene(t), [process.execPath, 'zod-answers.ts']))
  assert.match(said, /^simulated name: \d+ km through .+\nmeasured in \d{4}\n$/)
})

function create(socketPath: string, key: string, content: string): Promise<number | undefined> {
  const body = JSON.stringify({
    model: 'gpt-5-mini',
    response_format: { format: 'text' },
    messages: [{ role: 'user', content }],
  })
  const headers = { 'x-api-key': key, 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    const options = { socketPath, path: '/api/v1/messages', method: 'POST', headers, agent: false }
    request(options, (response) => {
      response.resume().on('end', () => resolve(response.statusCode))
    })
      .on('error', reject)
      .end(body)
  })
}

test('two-nodes shares jobs between two nodes behind nginx, and one node continues when the other stops', {
  timeout: 180_000,
  skip: noNginx,
}, async (t) => {
  const place = await installation(t, { databaseUrl: await freshRealDatabase(t) })
  const folder = join(place.folder, 'run')
  const program = place.spawn(['sh', join(EXAMPLES, 'two-nodes/start.sh')], {
    env: { FOLDER: folder, LISTEN: 'unix:front.sock', PORT: undefined },
  })
  await program.line(/^nginx listens on unix:front\.sock$/m)
  const [, key = ''] = await program.line(/^ {2}(prl_\w+)$/m)
  const creates = async (round: string) => {
    const sent = Array.from({ length: 10 }, (_, n) =>
      create(join(folder, 'front.sock'), key, `${round} ${n}`),
    )
    return [...new Set(await Promise.all(sent))]
  }
  assert.deepEqual(await creates('both'), [200])
  for (const name of ['node-1', 'node-2']) {
    // nginx writes its log line a moment after the response.
    const log = () => readFile(join(folder, `${name}.log`), 'utf8')
    await eventually(log, (lines) => lines.includes('"method":"POST"'), { signal: t.signal })
  }

  const pid = Number(await readFile(join(folder, 'node-1.pid'), 'utf8'))
  process.kill(pid, 'SIGTERM')
  await eventually(
    () => isRunning(pid),
    (running) => !running,
    { signal: t.signal },
  )
  assert.deepEqual(await creates('one'), [200])

  program.kill('SIGTERM')
  assert.deepEqual(await program.exited, { code: 0, signal: null })
})

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
