/** The scripts of docs/recipes/batches.md, run as printed, with the page's own lines and configuration. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { after } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { temporaryFolder } from '../parley.ts'
import { CLONE, installation, MAIN } from '../process/server-process.ts'

const timeout = 60_000
const PAGE = readFileSync(join(CLONE, 'docs/recipes/batches.md'), 'utf8')
const blocks = [...PAGE.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, , text = '']) => text)
const block = (start: string) => blocks.find((text) => text.includes(start)) ?? assert.fail(start)

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
await writeFile(join(folder, 'in.jsonl'), block('"custom_id":"1"'))
await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
await symlink(join(CLONE, 'node_modules'), join(folder, 'node_modules'))
await mkdir(join(folder, 'bin'))
await writeFile(join(folder, 'bin/parley'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`)
await chmod(join(folder, 'bin/parley'), 0o755)
const env = {
  PARLEY_URL: server.url,
  PARLEY_API_KEY: key,
  PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
}

for (const [name, start, command, code] of [
  ['run-batch.ts', '// run-batch.ts', [process.execPath, 'run-batch.ts'], 0],
  ['run-batch.sh', '# run-batch.sh', ['sh', 'run-batch.sh'], 2],
] as const) {
  test(`${name} runs as printed, and writes both files of results`, { timeout }, async () => {
    await writeFile(join(folder, name), block(start))
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
