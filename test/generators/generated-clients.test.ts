/**
 * Tests the OpenAPI documents with third-party tools. A linter must find nothing. The clients of two generators must compile in
 * strict mode and work.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { after } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { CALLERS, OPERATORS } from '../http/openapi/document.ts'
import { startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { generateClient, generateTypes, prepareFolder } from './generate.ts'
import { type Seen, type Server, STALLS } from './scenarios/scenario.ts'

const TYPESCRIPT = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url))
const DOCUMENTS = { callers: CALLERS, operators: OPERATORS } as const
const run = promisify(execFile)

const { parley } = await startStage(
  { after },
  {
    settings: { tiers: { user_go: { reads_per_minute: 1 } } },
    script: ({ body }) => (body.messages[0]?.content === STALLS ? reply.stall() : undefined),
  },
)
const folder = mkdtempSync(join(tmpdir(), 'parley-generators-'))
after(() => rmSync(folder, { recursive: true }))

const textOf = async (name: keyof typeof DOCUMENTS) => (await parley.get(DOCUMENTS[name])).text

test('the linter has no error and no warning, by its recommended rules', async () => {
  const config = await createConfig({ extends: ['recommended'] })
  for (const name of ['callers', 'operators'] as const) {
    const problems = await lintFromString({ source: await textOf(name), absoluteRef: `${name}.json`, config })
    const found = problems.map(({ severity, ruleId, message, location }) => ({
      severity,
      ruleId,
      message,
      at: location[0]?.pointer,
    }))
    assert.deepEqual(found, [], name)
  }
})

test('the linter sees what is wrong', async () => {
  const config = await createConfig({ extends: ['recommended'] })
  const document = JSON.parse(await textOf('callers'))
  delete document.paths['/api/v1/me'].get.operationId
  document.paths['/api/v1/me'].get.security = [{ none: [] }]
  const source = JSON.stringify(document)
  const problems = await lintFromString({ source, absoluteRef: 'callers.json', config })
  const rules = problems.map(({ ruleId }) => ruleId).sort()
  assert.deepEqual(rules, ['operation-operationId', 'security-defined'])
})

test('clients are generated from both documents, and compile in strict mode', async (t) => {
  prepareFolder(folder)
  for (const name of ['callers', 'operators'] as const) {
    const text = await textOf(name)
    for (const [generator, generate] of [
      ['openapi-typescript', generateTypes],
      ['@hey-api/openapi-ts', generateClient],
    ] as const) {
      const { files, lines, bytes } = await generate(folder, name, text)
      t.diagnostic(`${generator}, ${name}: ${files} files, ${lines} lines, ${bytes} bytes`)
    }
  }
  const { stdout } = await run(process.execPath, [TYPESCRIPT, '-p', folder]).catch((error) => error)
  assert.equal(stdout, '')
})

for (const scenario of ['with-openapi-fetch', 'with-hey-api']) {
  test(`the generated client works: ${scenario}`, async () => {
    const key = await parley.key('user_max', scenario)
    const server = { url: parley.url, key, slowKey: await parley.key('user_go', `${scenario}-slow`) }
    const module: { run(server: Server): Promise<Seen> } = await import(
      pathToFileURL(join(folder, `${scenario}.ts`)).href
    )
    const { answer, jobIds, statuses, together, cancelled, listed, errors } = await module.run(server)
    assert.equal(answer, 'echo: Hello')
    assert.equal(jobIds.length, 2)
    assert.deepEqual([statuses, together], Array(2).fill(['completed', 'completed']))
    assert.equal(cancelled, 'cancelled')
    // The single create is the third job. The cancelled job has been deleted.
    assert.deepEqual(listed.slice(0, 2), jobIds.toReversed())
    assert.equal(listed.length, 3)
    assert.deepEqual(errors, {
      400: 'Invalid parameters.',
      401: 'API key is required.',
      404: 'Job not found.',
      429: 'Rate limit exceeded.',
    })
  })
}
