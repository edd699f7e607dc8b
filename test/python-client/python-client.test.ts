/** Tests the Python client with a running server and the machine's own Python. Skipped if there is none. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'node:test'
import { makeSecret } from '../../src/net/signing-secrets.ts'
import { startFaultyProxy } from '../client/faulty-proxy.ts'
import { startParley } from '../parley.ts'
import { signedCallback } from '../process/listener.ts'
import { CLONE, type Installation, installation } from '../process/server-process.ts'

const timeout = 120_000
const ROUNDS = 20
const CLIENT = join(CLONE, 'clients/python')
// Debian's own Python comes first, because others on the PATH are usually newer.
const PYTHON = ['/usr/bin/python3', 'python3'].find(
  (name) => spawnSync(name, ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))']).status === 0,
)
const skip = PYTHON === undefined ? 'python3 is not installed on this machine' : false

async function run(
  place: Installation,
  file: string,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  await copyFile(join(CLIENT, 'parley_client.py'), join(place.folder, 'parley_client.py'))
  const program = place.spawn([PYTHON ?? '', '-W', 'error', file], { env })
  const { code } = await program.exited
  assert.equal(code, 0, program.stdout + program.stderr)
  return program.stdout
}

test('the Python client creates, waits, retries, lists, cancels, deletes and verifies', {
  timeout,
  skip,
}, async (t) => {
  const parley = await startParley(t)
  const place = await installation(t)
  const proxy = await startFaultyProxy(t, parley.url)
  // Of each three requests, the first gets 503, and the response to the second is lost.
  const faults = [{ status: 503, headers: { 'retry-after': '0' } }, 'reset after', 'pass'] as const
  for (let round = 0; round < ROUNDS; round++) proxy.script(...faults)
  await copyFile(new URL('calls.py', import.meta.url), join(place.folder, 'calls.py'))
  const secret = makeSecret()
  const { body, headers } = signedCallback(secret)
  const key = await parley.key('user_max')
  const env = {
    PARLEY_URL: parley.url,
    PARLEY_API_KEY: key,
    FAULTY_URL: proxy.url,
    SECRET: secret,
    BODY: body,
  }
  assert.equal(await run(place, 'calls.py', { ...env, ...headers }), 'done\n')
  assert.ok(proxy.requests.length >= faults.length && proxy.requests.length < ROUNDS * faults.length)
})

test('the examples in its README run', { timeout, skip }, async (t) => {
  const parley = await startParley(t)
  const place = await installation(t)
  const page = await readFile(join(CLIENT, 'README.md'), 'utf8')
  const env = { PARLEY_URL: parley.url, PARLEY_API_KEY: await parley.key('user_max') }
  const examples = [...page.matchAll(/```python\n(.*?)```/gs)].map(([, code = '']) => code)
  assert.ok(examples.length >= 3)
  for (const [index, code] of examples.entries()) {
    await writeFile(join(place.folder, `example-${index}.py`), code)
    const printed = await run(place, `example-${index}.py`, env)
    if (code.includes('print(')) assert.match(printed, /\S/, code)
  }
  const source = await readFile(join(CLIENT, 'parley_client.py'), 'utf8')
  const { version } = JSON.parse(await readFile(join(CLONE, 'package.json'), 'utf8')) as { version: string }
  assert.ok(source.includes(`parley-python/${version}"`))
})
