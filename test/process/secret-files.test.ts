/** Tests secrets that the server and the commands read from files, as Kubernetes and Docker provide them. */
import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'node:test'
import { startModelServer } from '../model-server.ts'
import { installation } from './server-process.ts'

test('the database, the key of the model server and the admin token come from files', async (t) => {
  const model = await startModelServer({}, t)
  const place = await installation(t, { upstream: model.baseUrl })
  const file = async (name: string, content: string) => {
    const path = join(place.folder, name)
    await writeFile(path, content)
    return path
  }
  const env = {
    DATABASE_URL: undefined,
    DATABASE_URL_FILE: await file('database', 'sqlite:./from-file.db\n'),
    OPENAI_API_KEY_FILE: await file('key', 'sk-from-file\r\n'),
    PARLEY_ADMIN_TOKEN_FILE: await file('token', 'token-from-file'),
  }
  const server = await place.start({ env })
  const job = await server.caller(await server.firstKey()).single('Hello')
  assert.equal(job.status, 200)
  assert.equal(model.requests.at(-1)?.headers.authorization, 'Bearer sk-from-file')
  const overview = await fetch(`${server.url}/admin/api/overview`, {
    headers: { authorization: 'Bearer token-from-file' },
  })
  assert.equal(overview.status, 200)
  await server.stop()
  assert.equal((await place.json(['keys', 'list'], { env })).length, 1)
  for (const output of [server.program.stdout, server.program.stderr]) {
    assert.doesNotMatch(output, /sk-from-file|token-from-file/)
  }
})

test('a file that gives no value, and a variable that is set twice, are errors', async (t) => {
  const place = await installation(t)
  const missing = join(place.folder, 'missing')
  const folder = join(place.folder, 'folder')
  const empty = join(place.folder, 'empty')
  await mkdir(folder)
  await writeFile(empty, '\n')
  const problems = async (args: readonly string[], env: Record<string, string | undefined>) => {
    const { code, stderr } = await place.parley(args, { env })
    assert.notEqual(code, 0)
    return stderr.trim().split('\n')
  }
  const wrong = {
    DATABASE_URL: 'postgres://user:CANARY@127.0.0.1/x',
    DATABASE_URL_FILE: missing,
    OPENAI_API_KEY_FILE: folder,
    PARLEY_ADMIN_TOKEN_FILE: empty,
  }
  assert.deepEqual(await problems(['serve'], wrong), [
    'DATABASE_URL_FILE: DATABASE_URL is set, too; unset one of the two',
    `OPENAI_API_KEY_FILE: the file ${folder} cannot be read (EISDIR)`,
    `PARLEY_ADMIN_TOKEN_FILE: the file ${empty} is empty`,
  ])
  // Commands that only need the database do not read the other files.
  assert.deepEqual(await problems(['keys', 'list'], { ...wrong, DATABASE_URL: undefined }), [
    `DATABASE_URL_FILE: the file ${missing} cannot be read (ENOENT)`,
  ])
  assert.deepEqual(await problems(['keys', 'list'], { PARLEY_ADMIN_TOKEN_FIL: missing }), [
    'PARLEY_ADMIN_TOKEN_FIL: unknown environment variable; did you mean PARLEY_ADMIN_TOKEN_FILE? Rename it, or unset it',
  ])
})
