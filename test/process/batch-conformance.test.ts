/** Tests that conformance/batch.mjs reports what a wrong server does with the lines of a batch. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import test from 'node:test'
import { freePort } from '../postgres/cluster.ts'
import { serveHttp } from './http-server.ts'
import { CLONE, installation } from './server-process.ts'

const result = (id: string, content: string) => ({
  custom_id: id,
  response: { status_code: 200, body: { choices: [{ message: { content } }] } },
})
const right = (line: number) => result(`line-${line}`, `The answer to line-${line}.`)

test('a server that loses, doubles, mixes up and repeats lines', async (t) => {
  const modelPort = await freePort()
  const files: Readonly<Record<string, readonly unknown[]>> = {
    output: [right(0), right(1), right(1), result('line-2', 'Another answer.'), right(7), right(99)],
    error: [{ custom_id: 'line-3', error: { code: 'batch_expired' } }],
  }
  const url = await serveHttp(t, async (request, response) => {
    request.resume()
    const send = (body: unknown) => response.end(JSON.stringify(body))
    const [, fileId = ''] = /\/files\/(\w+)\/content$/.exec(request.url ?? '') ?? []
    if (fileId !== '') {
      response.end((files[fileId] ?? []).map((line) => `${JSON.stringify(line)}\n`).join(''))
    } else if (request.url?.endsWith('/files')) send({ id: 'input' })
    else if (request.method === 'POST') {
      for (let call = 0; call < 2; call++) {
        await fetch(`http://127.0.0.1:${modelPort}/v1/chat/completions`, {
          method: 'POST',
          body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'line-5: Hello' }] }),
        })
      }
      send({ id: 'b', status: 'completed' })
    } else send({ id: 'b', status: 'completed', output_file_id: 'output', error_file_id: 'error' })
  })
  const place = await installation(t)
  const program = place.spawn([
    ...[process.execPath, join(CLONE, 'conformance/batch.mjs'), '--model', 'm', '--lines', '5'],
    ...['--base-url', `${url}/v1`],
    ...['--model-port', `${modelPort}`, '--restart', 'true'],
  ])
  const { code } = await program.exited
  assert.equal(code, 1, program.stderr)
  assert.deepEqual(program.stdout.trimEnd().split('\n').slice(1), [
    'in the output file: 6',
    'in the error file: 1',
    'lost: 1 (line-4)',
    'doubled: 1 (line-1)',
    'unknown: 2 (line-7, line-99)',
    'wrong: 2 (line-2, line-3)',
    'repeated: 1 (line-5)',
    'repeated although answered before: 1 (line-5)',
  ])
})

test('an option that is missing or unknown is named', async (t) => {
  const place = await installation(t)
  for (const args of [[], ['--model', 'm', '--colour', 'blue']]) {
    const program = place.spawn([process.execPath, join(CLONE, 'conformance/batch.mjs'), ...args])
    assert.equal((await program.exited).code, 2)
    assert.match(program.stderr, /--base-url/)
  }
})
