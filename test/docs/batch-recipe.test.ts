/** Runs the scripts of docs/recipes/batches.md as printed, with the page's own lines and configuration. */
import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { after } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { temporaryFolder } from '../parley.ts'
import { installation } from '../process/server-process.ts'
import { makeProject, pageAt } from './page.ts'

const timeout = 60_000
const { blocks, files } = pageAt('recipes/batches.md')
const block = (start: string) => blocks.find(({ body }) => body.includes(start))?.body ?? assert.fail(start)

const models = await startModelServer({
  script: ({ body }) =>
    JSON.stringify(body).includes('Africa') ? reply.status(400) : reply.text('The Amur.'),
})
after(() => models.close())
const folder = await temporaryFolder({ after })
const place = await installation({ after })
const settings = JSON.parse(block('"upstreams"'))
settings.upstreams.gpu.base_url = models.baseUrl
await writeFile(join(place.folder, 'parley.config.json'), JSON.stringify(settings))
const server = await place.start()
const key = await server.firstKey()
const PATH = await makeProject(folder, [...files, ['in.jsonl', block('"custom_id":"1"')]])
const env = { PARLEY_URL: server.url, PARLEY_API_KEY: key, PATH }

for (const [name, command, code] of [
  ['run-batch.ts', [process.execPath, 'run-batch.ts'], 0],
  ['run-batch.sh', ['sh', 'run-batch.sh'], 2],
] as const) {
  test(`${name} runs as printed, and writes both files of results`, { timeout }, async () => {
    const program = place.spawn(command, { cwd: folder, env })
    assert.deepEqual(await program.exited, { code, signal: null }, program.stderr)
    const [answer] = await linesOf('out.jsonl')
    assert.equal(answer?.custom_id, '1')
    assert.equal(answer.response.body.choices[0].message.content, 'The Amur.')
    const [error] = await linesOf('errors.jsonl')
    assert.deepEqual([error?.custom_id, error?.response.status_code], ['2', 502])
    assert.equal(models.requests[0]?.body.model, 'meta-llama/Llama-3.1-8B-Instruct')
  })
}

test('run-batch.sh does not succeed if the lines are wrong', { timeout }, async () => {
  await writeFile(join(folder, 'in.jsonl'), 'nothing')
  const program = place.spawn(['sh', 'run-batch.sh'], { cwd: folder, env })
  assert.deepEqual(await program.exited, { code: 2, signal: null }, program.stderr)
  assert.match(program.stderr, /^line 1: invalid_json_line: /m)
})

async function linesOf(name: string) {
  const text = await readFile(join(folder, name), 'utf8')
  await rm(join(folder, name))
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}
