/**
 * Tests `parley batches`: creating, showing, listing, downloading and cancelling batches, what it prints, and its exit codes.
 */
import assert from 'node:assert/strict'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import test, { after } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { startAsking } from './asking.ts'
import { serveHttp } from './http-server.ts'
import { assertEnded, reported } from './mistakes.ts'
import { MAIN } from './server-process.ts'

const models = await startModelServer({
  script: ({ body }) => {
    const text = JSON.stringify(body)
    if (text.includes('stall')) return reply.stall()
    return text.includes('bad') ? reply.status(400) : undefined
  },
})
after(() => models.close())
const { ask, begin, write, place, server, key } = await startAsking({ after }, { upstream: models.baseUrl })

function linesOf(...contents: string[]): string {
  const lines = contents.map((content) => ({
    custom_id: content,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'gpt-5-mini', messages: [{ role: 'user', content }] },
  }))
  return `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`
}

async function customIds(name: string): Promise<string[]> {
  const text = await readFile(join(place.folder, name), 'utf8')
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).custom_id)
}

test('a batch is created from a file, waited for, and downloaded into two files', async () => {
  await write('lines.jsonl', linesOf('one', 'two', 'bad'))
  const created = await ask(['batches', 'create', 'lines.jsonl', '--metadata', 'team=a'])
  assert.deepEqual([created.code, created.stderr], [0, ''])
  const id = created.stdout.trim()
  assert.match(id, /^batch_[\w-]+$/)

  const shown = await ask(['batches', 'show', id, '--wait'])
  assertEnded(shown, { code: 2, stdout: /: completed\nlines +2 answered, 1 failed, of 3\n/ })
  const { status, metadata, request_counts } = JSON.parse(
    (await ask(['batches', 'show', id, '--json'])).stdout,
  )
  assert.deepEqual([status, metadata], ['completed', { team: 'a' }])
  assert.deepEqual(request_counts, { total: 3, completed: 2, failed: 1 })

  const saved = await ask(['batches', 'download', id])
  assert.equal(saved.code, 2)
  const [out, errors] = [`${id}_output.jsonl`, `${id}_error.jsonl`]
  assert.equal(saved.stderr, `2 answers: ${out}\n1 error: ${errors}\n`)
  assert.deepEqual([(await customIds(out)).toSorted(), await customIds(errors)], [['one', 'two'], ['bad']])

  const again = await ask(['batches', 'download', id])
  assert.deepEqual(
    [again.code, again.stderr],
    [1, `${out} already exists. Pass another name, or --force to replace it.\n`],
  )
  const json = await ask(['batches', 'download', id, '--out', 'o.jsonl', '--errors', 'e.jsonl', '--json'])
  assert.deepEqual(JSON.parse(json.stdout), {
    batch: id,
    completed: 2,
    failed: 1,
    out: 'o.jsonl',
    errors: 'e.jsonl',
  })
  const piped = await ask(['batches', 'download', id, '--out', '-', '--errors', 'e.jsonl', '--force'])
  assert.equal(piped.stdout, await readFile(join(place.folder, 'o.jsonl'), 'utf8'))

  const env = { PARLEY_URL: server.url, PARLEY_API_KEY: key }
  const pipe = `{ "$0" "$1" batches download ${id} --out - --errors /dev/null; echo "exit code $?" >&2; } | true`
  const unread = place.spawn(['sh', '-c', pipe, process.execPath, MAIN], { env })
  assert.equal((await unread.exited).code, 0)
  assert.match(unread.stderr, /^(1 error: \/dev\/null\n)?exit code \d\n$/)
  assert.ok((await stat('/dev/null')).isCharacterDevice())
})

test('--wait, standard input, and the endpoint of responses', async () => {
  const body = { model: 'gpt-5-mini', input: 'Hello' }
  const line = { custom_id: 'r', method: 'POST', url: '/v1/responses', body }
  const waited = await ask(['batches', 'create', '-', '--endpoint', 'responses', '--wait', '--json'], {
    stdin: JSON.stringify(line),
  })
  assert.equal(waited.code, 0)
  const { id, status, endpoint } = JSON.parse(waited.stdout)
  assert.deepEqual([status, endpoint], ['completed', '/v1/responses'])
  assert.equal(waited.stderr, `Batch ${id}\n`)
  const listed = await ask(['batches', 'list'])
  assert.match(listed.stdout, /^BATCH ID +STATUS +LINES +ANSWERED +FAILED +CREATED\n/)
  assert.match(listed.stdout, new RegExp(`\n${id} +completed +1 +1 +0 +\\d`))
  assert.equal(JSON.parse((await ask(['batches', 'list', '--limit', '1', '--json'])).stdout)[0].id, id)
})

test('one that runs is shown with 5, cannot be downloaded, and is cancelled', async () => {
  await write('stalls.jsonl', linesOf('stall'))
  const waiting = begin(['batches', 'create', 'stalls.jsonl', '--wait'])
  await models.received(1 + models.requests.length)
  const [{ id }] = JSON.parse((await ask(['batches', 'list', '--json'])).stdout)
  assert.equal((await ask(['batches', 'show', id])).code, 5)
  const early = await ask(['batches', 'download', id])
  reported(early, /is in progress\. Its files can be read when it has ended/, 5)
  const cancelled = await ask(['batches', 'cancel', id])
  reported(cancelled, /is being cancelled/, 0)
  assertEnded(await waiting.ended(), { code: 2, stdout: /: cancelled\nlines +0 answered, 1 failed, of 1\n/ })
  models.release()
})

test('wrong lines are named, and other mistakes have the exit codes of the other client commands', async () => {
  await write('wrong.jsonl', `${linesOf('x')}nothing\n`)
  const wrong = await ask(['batches', 'create', 'wrong.jsonl', '--wait'])
  assertEnded(wrong, { code: 2, stdout: /: failed\n/, stderr: /\nline 2: invalid_json_line: / })
  const download = await ask(['batches', 'download', /batch_\S+/.exec(wrong.stderr)?.[0] ?? ''])
  assert.deepEqual([download.code, /has no results/.test(download.stderr)], [2, true])

  const missing = await ask(['batches', 'create', 'missing.jsonl'])
  assert.deepEqual([missing.code, missing.stderr], [1, 'missing.jsonl does not exist.\n'])
  assert.equal((await ask(['batches', 'show', 'batch_x'])).code, 1)
  assert.equal((await ask(['batches', 'list'], { env: { PARLEY_API_KEY: 'prl_wrong' } })).code, 3)
  assert.equal((await ask(['batches', 'list'], { env: { PARLEY_API_KEY: '' } })).code, 3)
  const away = await ask(['batches', 'list'], { env: { PARLEY_URL: 'http://127.0.0.1:9' } })
  assert.deepEqual([away.code, /^Cannot reach http:\/\/127\.0\.0\.1:9\/v1: /.test(away.stderr)], [4, true])
})

test('a server that is not Parley is named, whatever it responds', async (t) => {
  await write('lines.jsonl', linesOf('one'))
  for (const body of ['<html>Welcome</html>', '{"id":"batch_x"}', '']) {
    const url = await serveHttp(t, (_, response) => response.end(body))
    const isNamed = `${url}/v1 responded with 200, and not as a Parley server. Check --url, or PARLEY_URL.\n`
    for (const command of ['list', 'show x', 'create lines.jsonl', 'download x', 'cancel x']) {
      const { code, stdout, stderr } = await ask(['batches', ...command.split(' '), '--url', url])
      assert.deepEqual([code, stdout, stderr], [4, '', isNamed], command)
    }
  }
})

test('a connection that breaks within a response does not end a wait, but a download', async (t) => {
  const counts = { total: 1, completed: 1, failed: 0 }
  const usage = { input_tokens: 1, output_tokens: 1 }
  const batch = { object: 'batch', id: 'batch_x', created_at: 1, request_counts: counts, usage }
  let reads = 0
  const url = await serveHttp(t, ({ url: path }, response) => {
    const cut = path?.endsWith('/content') || (path?.startsWith('/v1/batches/wait') && ++reads === 2)
    if (cut) {
      response.writeHead(200, { 'content-length': 1000 })
      response.write('{"object":', () => response.destroy())
      return
    }
    const status = path?.startsWith('/v1/batches/wait') && reads < 3 ? 'in_progress' : 'completed'
    const file = { object: 'file', id: 'file-x', filename: '../x_output.jsonl' }
    response.end(
      JSON.stringify(path?.startsWith('/v1/files') ? file : { ...batch, status, output_file_id: 'file-x' }),
    )
  })
  const broke = `The connection to ${url}/v1 broke: `
  const waited = await ask(['batches', 'show', 'wait', '--wait', '--url', url])
  assert.deepEqual([waited.code, waited.stdout.split('\n')[0]], [0, 'batch_x: completed'])
  assert.ok(waited.stderr.startsWith(broke), waited.stderr)

  for (const options of [[], ['--out', '-']]) {
    const saved = await ask(['batches', 'download', 'x', '--url', url, ...options])
    assert.deepEqual([saved.code, saved.stderr.startsWith(broke)], [4, true], saved.stderr)
  }
  assert.deepEqual(
    (await readdir(place.folder)).filter((name) => name.startsWith('x_output')),
    [],
  )
})

test('a batch is created even if the response is lost, and its file is deleted only if there is no batch', async (t) => {
  await write('lines.jsonl', linesOf('one'))
  const batch = { object: 'batch', id: 'batch_x', input_file_id: 'file-x' }
  const cases = [
    { listed: [{ ...batch, id: 'batch_y', input_file_id: 'file-y' }, batch], ends: [0, 'batch_x\n', []] },
    { listed: [], ends: [4, '', ['/v1/files/file-x']] },
    { listed: null, ends: [4, '', []] },
  ]
  for (const { listed, ends } of cases) {
    const deleted: string[] = []
    const url = await serveHttp(t, (request, response) => {
      const { method, url: path = '' } = request
      if (method === 'DELETE') deleted.push(path)
      const object = path.startsWith('/v1/files') ? { object: 'file', id: 'file-x' } : { object: 'list' }
      const isLost = path.startsWith('/v1/batches') && (method === 'POST' || listed === null)
      request.resume().on('end', () => {
        if (isLost) response.destroy()
        else response.end(JSON.stringify({ ...object, data: listed, has_more: false }))
      })
    })
    const { code, stdout } = await ask(['batches', 'create', 'lines.jsonl', '--url', url])
    assert.deepEqual([code, stdout, deleted], ends)
  }
})

test('a wrong key or URL is not sent, and no message contains the key', async () => {
  const wrongKey = await ask(['batches', 'list'], { env: { PARLEY_API_KEY: 'prl_secret\r\nx' } })
  assert.deepEqual(
    [wrongKey.code, wrongKey.stderr],
    [1, 'The API key contains characters that are not valid in a key.\n'],
  )
  const wrongUrl = await ask(['batches', 'list', '--url', 'parley.example.com'])
  assert.deepEqual([wrongUrl.code, /^--url \(or PARLEY_URL\) must be/.test(wrongUrl.stderr)], [1, true])
})
