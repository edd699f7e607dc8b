/**
 * Tests the client as its users get it: packed, installed in an empty folder without a network, and used from JavaScript and
 * TypeScript.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { onThePath, succeed } from './packages.ts'
import { CLONE, installation } from './server-process.ts'

const MODULES = join(CLONE, 'node_modules')
const TSC = [process.execPath, join(MODULES, 'typescript/bin/tsc')]

function installCommands(): string[] {
  const [, block = ''] = /```sh\n(.*?)```/s.exec(readFileSync(join(CLONE, 'client/README.md'), 'utf8')) ?? []
  return block.split('\n').flatMap((line) => line.replace(/\s+#.*$/, '') || [])
}

const JAVASCRIPT = `
import { Parley, webhooks } from 'parley-client'
const job = await new Parley().messages.createAndWait({
  model: 'gpt-auto', response_format: { format: 'text' }, messages: [{ role: 'user', content: process.argv[2] }],
})
console.log(job.result.response_content, typeof webhooks.verify)
`

const COMMONJS = `
const { Parley } = require('parley-client')
new Parley().me().then(({ tier }) => console.log(tier))
`

const TYPESCRIPT = `
import { type Callback, completed, jsonSchema, Parley, ParleyError, type StandardSchemaV1, webhooks } from 'parley-client'

declare const River: StandardSchemaV1<{ km: string }, { km: number }>
const parley: Parley = new Parley({ apiKey: 'prl_x' })
const fields = { model: 'gpt-5', messages: [{ role: 'user', content: '' }] } as const
const job = await parley.messages.createAndWait({ ...fields, response_format: { format: 'json', schema: River } })
const km: number = job.result.response_content.km
// @ts-expect-error: it is a number.
const wrong: string = job.result.response_content.km
const created = await parley.messages.create({ ...fields, response_format: { format: 'text' } })
if (created.status === 'timeout') completed(await parley.messages.wait<string>(created.job_id)).result.response_content.trim()
// @ts-expect-error: it may not have ended.
created.result.response_content
const byHand = jsonSchema<{ river: string }>({ type: 'object' })
const typed = await parley.messages.createAndWait({ ...fields, response_format: { format: 'json', schema: byHand } })
typed.result.response_content.river.trim()
const callback: Callback<string> = await webhooks.verify<string>('', new Headers(), 'whsec_x')
export const all: unknown[] = [km, wrong, callback, (error: unknown) => error instanceof ParleyError && error.retryAfter]
`

/** The strictest settings also check the declarations of the package. */
const STRICT = {
  noEmit: true,
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: false,
  target: 'es2022',
  types: [],
}

const RESOLUTIONS = [
  { module: 'nodenext', lib: ['es2022', 'dom'] },
  { module: 'node16', lib: ['es2022', 'dom'] },
  { module: 'preserve', moduleResolution: 'bundler', lib: ['es2022', 'dom'] },
  // A project for a server has the types of Node instead of those of a browser.
  { module: 'nodenext', lib: ['es2022'], types: ['node'], typeRoots: [join(MODULES, '@types')] },
]

/** The tests run on all of these that are installed on this machine, in addition to the Node that runs the tests. */
const RUNTIMES: readonly (readonly [name: string, ...options: string[]])[] = [
  ['node'],
  ['bun'],
  ['deno', 'run', '--allow-net', '--allow-env', '--no-remote'],
]

test('the packed client, in an empty folder', async (t) => {
  const place = await installation(t)
  const folder = join(place.folder, 'project')
  await mkdir(folder)
  const path = (name: string) => join(folder, name)
  const write = (name: string, text: string) => writeFile(path(name), text)
  const run = (command: readonly string[], env: Record<string, string> = {}) =>
    succeed(place, command, { cwd: folder, env })
  const server = await place.start()
  const env = { PARLEY_URL: server.url, PARLEY_API_KEY: await server.firstKey() }

  await t.test('is installed as its README says, holds what it needs, and brings nothing along', async () => {
    await write('package.json', '{ "private": true, "type": "module" }')
    // The commands use an empty folder instead of /tmp, and have no registry and no cache.
    const offline = { npm_config_offline: 'true', npm_config_cache: join(place.folder, 'empty-cache') }
    const [packing = '', installing = '', ...others] = installCommands()
    assert.deepEqual(others, [])
    const shell = (command: string) => ['sh', '-c', command.replaceAll('/tmp', place.folder)]
    await succeed(place, shell(packing), { cwd: CLONE, env: offline })
    await run(shell(installing), offline)
    const modules = await readdir(path('node_modules'))
    assert.deepEqual(
      modules.filter((name) => !name.startsWith('.')),
      ['parley-client'],
    )
    const all = await readdir(path('node_modules/parley-client'), { recursive: true })
    const files = all.filter((name) => name !== 'dist')
    assert.ok(files.includes('dist/index.js') && files.includes('dist/index.d.ts'))
    const unexpected = files.filter((name) => !/^dist\/[a-z-]+(\.d\.ts|\.js)$/.test(name))
    assert.deepEqual(unexpected.toSorted(), ['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json'])
  })

  await t.test('runs from JavaScript, as a module and by require', async () => {
    await write('use.mjs', JAVASCRIPT)
    const { stdout } = await run([process.execPath, 'use.mjs', 'From a package'], env)
    assert.match(stdout, /From a package.* function\n$/)
    await write('use.cjs', COMMONJS)
    assert.equal((await run([process.execPath, 'use.cjs'], env)).stdout, 'user_max\n')
  })

  for (const [name, ...options] of RUNTIMES) {
    const runtime = onThePath(name)
    await t.test(`runs on the ${name} of the machine`, { skip: runtime === undefined }, async () => {
      const { stdout } = await run([runtime ?? name, ...options, 'use.mjs', `By ${name}`], env)
      assert.match(stdout, new RegExp(`By ${name}.* function\n$`))
    })
  }

  await t.test('compiles from TypeScript, however modules are resolved', async () => {
    await write('use.ts', TYPESCRIPT)
    for (const resolution of RESOLUTIONS) {
      const tsconfig = { compilerOptions: { ...STRICT, ...resolution }, files: ['use.ts'] }
      await write('tsconfig.json', JSON.stringify(tsconfig))
      await run([...TSC, '-p', '.'])
    }
  })

  await t.test('has a README whose examples compile and run', async () => {
    const readme = readFileSync(path('node_modules/parley-client/README.md'), 'utf8')
    const examples = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code)
    assert.ok(examples.length >= 6)
    await symlink(join(MODULES, 'zod'), path('node_modules/zod'))
    const names = examples.map((_, index) => `example-${index}.ts`)
    for (const [index, name] of names.entries()) await write(name, examples[index] ?? '')
    const node = { types: ['node'], typeRoots: [join(MODULES, '@types')], skipLibCheck: true }
    const compilerOptions = { ...STRICT, ...node, module: 'nodenext', lib: ['es2022'] }
    await write('tsconfig.json', JSON.stringify({ compilerOptions, files: names }))
    await run([...TSC, '-p', '.'])
    const ran = await Promise.all(names.map((name) => run([process.execPath, name], env)))
    assert.match(ran[0]?.stdout ?? '', /Hello, Parley!/)
    assert.match(ran.map(({ stderr }) => stderr).join(''), /model_error/)
  })
})
