/** Tests the program on a Unix socket, behind a reverse proxy on the same machine. */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import test from 'node:test'
import { promisify } from 'node:util'
import { assertEnded } from './mistakes.ts'
import { installation, MAIN } from './server-process.ts'

const hasCurl = spawnSync('curl', ['--version']).status === 0
const TOKEN = 'of-the-operators'

function send(socketPath: string, method: string, path: string, headers: Record<string, string>) {
  return new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const sent = request({ socketPath, method, path, headers }, async (response) => {
      resolve({ status: response.statusCode, body: await text(response) })
    })
    sent.on('error', reject)
    sent.end()
  })
}

test('HOST=unix:/path: the first line names it, the printed example works, a killed server leaves nothing in the way', {
  skip: process.platform === 'win32',
}, async (t) => {
  const place = await installation(t, { settings: { trust_proxy: '10.0.0.0/8' } })
  const path = join(place.folder, 'parley.sock')
  const start = () => {
    const env = { HOST: `unix:${path}`, PARLEY_ADMIN_TOKEN: TOKEN, PARLEY_SIMULATOR: 'true' }
    return place.spawn([process.execPath, MAIN, 'serve'], { env })
  }
  const first = start()
  assert.equal((await first.line(/listening on (.+)\n/))[1], `unix:${path}`)
  const [example] = await first.line(/^curl .+\n/m)
  assert.match(example, /^curl -s --unix-socket \S+ http:\/\/localhost\/api\/v1\/messages /)
  if (hasCurl) {
    const { stdout } = await promisify(execFile)('sh', ['-c', example])
    assert.equal(JSON.parse(stdout).data.status, 'completed')
  }
  assert.doesNotMatch(first.stdout, /dashboard/)

  const admin = { authorization: `Bearer ${TOKEN}` }
  const direct = await send(path, 'POST', '/admin/api/accounts/default/suspend', admin)
  const forwarded = { ...admin, 'x-forwarded-for': '192.0.2.7, 10.0.0.1' }
  const proxied = await send(path, 'POST', '/admin/api/accounts/default/resume', forwarded)
  assert.deepEqual([direct.status, proxied.status], [200, 200])
  const { acts } = JSON.parse((await send(path, 'GET', '/admin/api/audit', admin)).body).data
  assert.deepEqual(
    acts.map(({ who }: { who: string }) => who),
    ['admin token from 192.0.2.7 (admin API)', 'admin token from a Unix socket (admin API)'],
  )
  const wrongKey = await send(path, 'GET', '/api/v1/me', { 'x-api-key': 'none' })
  assert.equal(wrongKey.status, 401)

  const second = await place.parley(['serve'], {
    env: { HOST: `unix:${path}`, DATABASE_URL: 'sqlite:other.db', PARLEY_SIMULATOR: 'true' },
  })
  assertEnded(second, {
    code: 1,
    stderr: /cannot listen on unix:.+parley\.sock: another program listens on /,
  })

  first.kill('SIGKILL')
  await first.exited
  assert.ok((await stat(path)).isSocket())
  const third = start()
  await third.line(/listening on unix:/)
  assert.equal((await send(path, 'GET', '/healthz', {})).status, 200)
  third.kill('SIGTERM')
  assert.deepEqual(await third.exited, { code: 0, signal: null })
  await assert.rejects(stat(path), { code: 'ENOENT' })
})
