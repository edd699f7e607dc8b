/**
 * Runs the examples of docs/callbacks.md as printed. Each must accept what the server signs, and nothing else. An example that
 * needs a program missing on this machine is skipped with a reason.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { makeSecret } from '../../src/net/signing-secrets.ts'
import { job, startParley, temporaryFolder } from '../parley.ts'
import { CALLBACK_BODY, type Callback, post, signedCallback } from '../process/listener.ts'
import { CLONE, type Installation, installation, type Program } from '../process/server-process.ts'
import { startReceiver } from '../receiver.ts'
import { makeProject, missing, pageAt } from './page.ts'

const timeout = 60_000
const { blocks, files, of } = pageAt('callbacks.md')

const isNewEnough = 'import sys; sys.exit(sys.version_info < (3, 9))'
const noPython =
  spawnSync('python3', ['-c', isNewEnough]).status === 0 ? false : 'python3 (3.9 or newer) is not installed'
const noOpenssl = missing('openssl')

const receivers: readonly { file: string; command: readonly string[]; skip: string | false }[] = [
  { file: 'receiver.ts', command: [process.execPath, 'receiver.ts'], skip: false },
  { file: 'inbox.ts', command: [process.execPath, 'inbox.ts'], skip: false },
  { file: 'receiver.py', command: ['python3', 'receiver.py'], skip: noPython },
]

interface Examples {
  readonly folder: string
  readonly place: Installation
}

/** All files of the page are in one folder, as in a reader's own project. */
async function examples(t: TestContext): Promise<Examples> {
  // Hooks run in reverse order, and the programs must end before the folder is removed.
  const place = await installation(t)
  const folder = await temporaryFolder(t)
  await makeProject(folder, files)
  return { folder, place }
}

async function start({ folder, place }: Examples, command: readonly string[], secret: string) {
  const program = place.spawn(command, { cwd: folder, env: { PARLEY_CALLBACK_SECRET: secret } })
  const [, port] = await program.line(/^listening on .*\D(\d+)\D*\n/m)
  return { url: `http://127.0.0.1:${port}/hook`, program }
}

const [secret, newer, other] = [makeSecret(), makeSecret(), makeSecret()]

const changedBody = ({ body, headers }: Callback): Callback => ({ body: body.replace('ö', 'ø'), headers })
const withHeader = (name: string, value: string, { body, headers }: Callback): Callback => ({
  body,
  headers: { ...headers, [name]: value },
})
const nowS = () => Math.floor(Date.now() / 1000)

const RIGHT: Readonly<Record<string, () => Callback>> = {
  'the right one': () => signedCallback(secret),
  'a rotation from it': () => signedCallback([newer, secret]),
  'a rotation to it': () => signedCallback([secret, newer]),
  'one 4 minutes old': () => signedCallback(secret, { ageS: 240 }),
}
const WRONG: typeof RIGHT = {
  'a changed byte': () => changedBody(signedCallback(secret)),
  'an old timestamp': () => signedCallback(secret, { ageS: 310 }),
  'a timestamp to come': () => signedCallback(secret, { ageS: -330 }),
  'a wrong secret': () => signedCallback(other),
  'two wrong secrets': () => signedCallback([other, newer]),
  'an old one with a new timestamp': () =>
    withHeader('webhook-timestamp', String(nowS()), signedCallback(secret, { ageS: 310 })),
  'another id': () => withHeader('webhook-id', 'another', signedCallback(secret)),
  'a timestamp that is no number': () => withHeader('webhook-timestamp', 'now', signedCallback(secret)),
  'an empty signature': () => withHeader('webhook-signature', 'v1,', signedCallback(secret)),
  'a signature of another version': () => {
    const callback = signedCallback(secret)
    const signature = callback.headers['webhook-signature'] ?? ''
    return withHeader('webhook-signature', signature.replace('v1,', 'v2,'), callback)
  },
}
const cases = [
  ...Object.entries(RIGHT).map(([what, callback]) => ({ what, callback, accepted: true })),
  ...Object.entries(WRONG).map(([what, callback]) => ({ what, callback, accepted: false })),
]

test('every example of the page is tested here, and its JSON is valid', () => {
  const names = ['inbox.ts', 'receiver.py', 'receiver.ts', 'verify.sh', 'verify.ts']
  assert.deepEqual([...files.keys()].sort(), names)
  const named = new Set(files.values())
  const left = blocks.filter(({ body }) => !named.has(body))
  // The other blocks are commands to type and their output, not programs.
  assert.deepEqual([...new Set(left.map(({ language }) => language))].sort(), ['json', 'sh', 'text'])
  for (const text of of('json')) JSON.parse(text)
})

test('the TypeScript examples have no type errors', { timeout }, async (t) => {
  const { folder } = await examples(t)
  const sources = [...files.keys()].filter((name) => name.endsWith('.ts'))
  const options = '--noEmit --strict --target es2024 --module nodenext --types node --skipLibCheck'.split(' ')
  const tsc = join(CLONE, 'node_modules/.bin/tsc')
  const checked = spawnSync(process.execPath, [tsc, ...options, '--allowImportingTsExtensions', ...sources], {
    cwd: folder,
  })
  assert.equal(checked.status, 0, String(checked.stdout))
})

for (const { file, command, skip } of receivers) {
  test(`${file} accepts what was signed with its secret, and nothing else`, { timeout, skip }, async (t) => {
    const { url } = await start(await examples(t), command, secret)
    for (const { what, callback, accepted } of cases) {
      await t.test(what, async () => assert.equal(await post(url, callback()), accepted ? 204 : 401))
    }
    await t.test('no headers', async () => {
      const headers = { 'content-type': 'application/json' }
      assert.equal(await post(url, { body: CALLBACK_BODY, headers }), 401)
    })
  })

  test(`${file} does not start without a secret`, { timeout, skip }, async (t) => {
    const { folder, place } = await examples(t)
    const program = place.spawn(command, { cwd: folder, env: { PARLEY_CALLBACK_SECRET: '' } })
    assert.equal((await program.exited).code, 1)
  })

  test(`${file} gets the server's callbacks, during a rotation too`, { timeout, skip }, async (t) => {
    const { parley, key } = await server(t)
    const old = (await parley.store.secrets('user_max'))?.current ?? ''
    const place = await examples(t)
    const before = await start(place, command, old)
    await received(before.program, await create(parley, key, before.url))
    await parley.store.rotateSecret('user_max', newer, Date.now())
    await received(before.program, await create(parley, key, before.url))
    const after = await start(place, command, newer)
    await received(after.program, await create(parley, key, after.url))
  })
}

async function server(t: TestContext) {
  const parley = await startParley(t, {
    settings: { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0] } },
  })
  return { parley, key: await parley.key() }
}

type Parley = Awaited<ReturnType<typeof startParley>>

async function create(parley: Parley, key: string, url: string): Promise<string> {
  const jobs = [job({ callback: { callback_url: url } })]
  return (await parley.post('/api/v1/messages/batches', jobs, key)).body.data.job_ids[0]
}

function received(program: Program, jobId: string): Promise<unknown> {
  return program.line(new RegExp(`${jobId} completed`))
}

test('inbox.ts processes a callback once, however often it arrives', { timeout }, async (t) => {
  const place = await examples(t)
  const command = [process.execPath, 'inbox.ts']
  const first = await start(place, command, secret)
  const id = '0198c0de-0000-7000-8000-000000000002'
  const body = CALLBACK_BODY.replace(/0198c0de[-0-9]+/, id)
  for (const ageS of [60, 30, 0]) {
    assert.equal(await post(first.url, signedCallback(secret, { id, ageS, body })), 204)
  }
  assert.equal(await post(first.url, signedCallback(secret)), 204)
  await received(first.program, '0198c0de-0000-7000-8000-000000000001')
  assert.equal(first.program.stdout.split(`work: ${id}`).length, 2, first.program.stdout)
  first.program.kill('SIGKILL')
  await first.program.exited

  const second = await start(place, command, secret)
  assert.equal(await post(second.url, signedCallback(secret, { id, body })), 204)
  const another = { id: 'new', body: '{"job_id":"new","status":"completed"}' }
  assert.equal(await post(second.url, signedCallback(secret, another)), 204)
  await received(second.program, 'new')
  assert.ok(!second.program.stdout.includes(id), second.program.stdout)
})

async function runVerify({ folder, place }: Examples, { body, headers }: Callback, known: string) {
  await writeFile(join(folder, 'body.json'), body)
  const args = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => headers[name] ?? '')
  const program = place.spawn(['sh', 'verify.sh', 'body.json', ...args], {
    cwd: folder,
    env: { PARLEY_CALLBACK_SECRET: known },
  })
  const { code } = await program.exited
  return { code, said: program.stdout, complained: program.stderr }
}

test('verify.sh gives the same results with openssl', { timeout, skip: noOpenssl }, async (t) => {
  const place = await examples(t)
  for (const { what, callback, accepted } of cases) {
    await t.test(what, async () => {
      const { code, said, complained } = await runVerify(place, callback(), secret)
      assert.deepEqual([code, complained], [accepted ? 0 : 1, ''])
      assert.match(said, accepted ? /^verified\n$/ : /^(no signature matches|the timestamp is .*)\n$/)
    })
  }
  const { code, said } = await runVerify(place, signedCallback(secret), '')
  assert.deepEqual([code, said], [2, 'PARLEY_CALLBACK_SECRET is empty\n'])
})

test('verify.sh verifies what the server sent', { timeout, skip: noOpenssl }, async (t) => {
  const receiver = await startReceiver({}, t)
  const { parley, key } = await server(t)
  await parley.store.rotateSecret('user_max', newer, Date.now())
  await create(parley, key, receiver.url)
  const [request] = await receiver.received(1)
  assert.ok(request)
  const callback = { body: request.body, headers: request.headers as Record<string, string> }
  const place = await examples(t)
  assert.equal((await runVerify(place, callback, newer)).said, 'verified\n')
  assert.equal((await runVerify(place, callback, other)).said, 'no signature matches\n')
})
