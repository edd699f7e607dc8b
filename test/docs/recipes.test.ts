/**
 * Runs the recipes as printed. The files of a recipe are written into a folder, and its `sh` blocks run there as one script.
 * Blocks marked `text` need what a test machine lacks, such as Docker, so only the names in them are checked.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { parse } from 'yaml'
import { startModelServer } from '../model-server.ts'
import { azure, KEY } from '../model-servers/hosted-servers.ts'
import { job, type ParleyOptions, startParley } from '../parley.ts'
import { CLONE, installation, type Program } from '../process/server-process.ts'
import { makeProject, missing, type Page, pageAt } from './page.ts'

const timeout = 120_000
const ACCOUNT = 'guide'

const recipe = (name: string) => pageAt(`recipes/${name}.md`)

async function run(
  t: TestContext,
  { files, of }: Pick<Page, 'files' | 'of'>,
  options: ParleyOptions & { readonly inputs?: Readonly<Record<string, string>> } = {},
): Promise<{ readonly program: Program; readonly folder: string }> {
  const { inputs = {}, ...others } = options
  const parley = await startParley(t, others)
  const place = await installation(t)
  const folder = join(place.folder, 'project')
  const written = [...files, ...Object.entries(inputs)]
  const PATH = await makeProject(folder, written, ['express', 'zod', 'openai'])
  await mkdir(join(folder, 'client'))
  await writeFile(join(folder, 'client/package.json'), '{ "exports": "./src/index.ts" }')
  await symlink(join(CLONE, 'client/src'), join(folder, 'client/src'))
  await symlink('../client', join(folder, 'node_modules/parley-client'))
  await symlink(join(CLONE, 'deploy'), join(folder, 'deploy'))
  const key = await parley.key('user_pro', ACCOUNT)
  const env = { PATH, DATABASE_URL: parley.database, PARLEY_URL: parley.url, PARLEY_API_KEY: key }
  return { program: place.spawn(['bash', '-ec', of('sh').join('')], { cwd: folder, env }), folder }
}

async function printed(program: Program): Promise<string> {
  const { code } = await program.exited
  assert.equal(code, 0, program.stdout + program.stderr)
  return program.stdout
}

const TESTED = [
  'batches',
  'compose-tls',
  'csv',
  'customers',
  'express',
  'kubernetes',
  'litellm',
  'model-servers',
  'openai-sdk',
  'python',
  'setting',
  'zod',
]

test('every recipe has at most 300 words, is in the index, and is tested', () => {
  const names = readdirSync(join(CLONE, 'docs/recipes')).map((name) => name.replace(/\.md$/, ''))
  assert.deepEqual(names.filter((name) => name !== 'README').toSorted(), TESTED)
  const { text: index } = recipe('README')
  for (const name of TESTED) {
    assert.ok(index.includes(`](${name}.md)`), name)
    assert.ok((recipe(name).text.match(/\S*[A-Za-z0-9]\S*/g) ?? []).length <= 300, name)
  }
})

test('express: the receiver gets a verified callback for each job', { timeout }, async (t) => {
  const { program } = await run(t, recipe('express'), {
    settings: { callbacks: { allow_networks: ['127.0.0.0/8'] } },
  })
  for (const river of ['Rhine', 'Nile']) {
    await program.line(new RegExp(`river: '${river}' } This is a simulated answer.*${river}`))
  }
})

test('python: prints the answer', { timeout, skip: missing('python3') }, async (t) => {
  const { program } = await run(t, recipe('python'))
  assert.match(await printed(program), /^This is a simulated answer.*Name a river/)
})

test('csv: each row gets an answer', { timeout, skip: missing('python3', 'jq') }, async (t) => {
  const rows = Array.from({ length: 120 }, (_, n) => `r${n},"Good, ""number"" ${n}"`)
  const { program, folder } = await run(t, recipe('csv'), {
    inputs: { 'reviews.csv': `id,text\n${rows.join('\n')}\n` },
  })
  await printed(program)
  const answers = (await readFile(join(folder, 'answers.csv'), 'utf8')).trim().split('\n')
  assert.equal(answers.length, rows.length)
  assert.match(answers[7] ?? '', /^"r7","completed",".*Good, ""?.*number.* 7/)
})

test('customers: each has a key, a cap, and a line in the invoice', {
  timeout,
  skip: missing('curl', 'jq'),
}, async (t) => {
  const models = await startModelServer({}, t)
  const customers = recipe('customers')
  const { program } = await run(t, customers, {
    upstream: models.baseUrl,
    settings: JSON.parse(customers.of('json')[0] ?? ''),
  })
  const said = await printed(program)
  assert.match(said, /^completed$/m)
  assert.match(said, /^account,.*,cost$/m)
  assert.match(said, /^customer-01,1,.*,[1-9]\d*$/m)
})

test('zod: prints the typed answer', { timeout }, async (t) => {
  const { program } = await run(t, recipe('zod'))
  assert.match(await printed(program), /^simulated name \d+/)
})

test("openai-sdk: OpenAI's client gets an answer", { timeout }, async (t) => {
  const { program } = await run(t, recipe('openai-sdk'))
  assert.match(await printed(program), /^This is a simulated answer.*Name a river/)
})

test('litellm: the configuration works, also when the first server is down', {
  timeout,
  skip: missing('curl', 'jq'),
}, async (t) => {
  const [first, second] = [await startModelServer(), await startModelServer()]
  t.after(() => second.close())
  await first.close()
  const litellm = recipe('litellm')
  const settings = (litellm.of('json')[0] ?? '')
    .replace('http://gpu-1:8000', new URL(first.baseUrl).origin)
    .replace('http://gpu-2:8000', new URL(second.baseUrl).origin)
  const { program } = await run(t, litellm, { settings: JSON.parse(settings) })
  assert.notEqual((await printed(program)).trim(), 'null')
  assert.equal(second.requests.length, 1)
})

test('model-servers: both models are answered, by Azure if the other servers are down', {
  timeout,
}, async (t) => {
  const down = await startModelServer()
  await down.close()
  const server = await startModelServer({ script: azure({ deployment: 'YOUR-DEPLOYMENT' }) }, t)
  const settings = (recipe('model-servers').of('json')[0] ?? '')
    .replaceAll(/http:\/\/(127\.0\.0\.1:11434|gpu:8000)/g, new URL(down.baseUrl).origin)
    .replace('https://YOUR-RESOURCE.openai.azure.com', new URL(server.baseUrl).origin)
  const env = { AZURE_OPENAI_API_KEY: KEY, VLLM_API_KEY: 'unused' }
  const parley = await startParley(t, { settings: JSON.parse(settings), env })
  const key = await parley.key()
  for (const model of ['small', 'large']) {
    const answer = await parley.post('/api/v1/messages', job({ model }), key)
    assert.equal(answer.body.data.status, 'completed', answer.text)
  }
})

test('compose-tls: the files fit compose.yaml and the program', {
  timeout,
  skip: missing('openssl'),
}, async (t) => {
  const tls = recipe('compose-tls')
  const { program, folder } = await run(t, tls, { settings: JSON.parse(tls.of('json')[0] ?? '') })
  await printed(program)
  const dotEnv = await readFile(join(folder, '.env'), 'utf8')
  const base = parse(readFileSync(join(CLONE, 'compose.yaml'), 'utf8'))
  const more = parse(tls.files.get('compose.tls.yaml') ?? '')
  for (const [, name = ''] of dotEnv.matchAll(/^(\w+)=/gm))
    assert.ok(JSON.stringify(base).includes(`\${${name}:`), name)
  assert.deepEqual(more.services.caddy.depends_on, ['parley'])
  assert.ok(Object.hasOwn(base.services, 'parley'))
  assert.match(tls.files.get('Caddyfile') ?? '', /reverse_proxy parley:8080/)
  // By default, Caddy sends nothing to a server for up to 30 s after the server has restarted.
  assert.match(tls.files.get('Caddyfile') ?? '', /health_uri \/readyz\n\s*health_interval 2s/)
  for (const volume of more.services.caddy.volumes) {
    const [source = ''] = volume.split(':')
    assert.ok(source in more.volumes || tls.text.includes(`# ${source.slice(2)}`), source)
  }
})

test('kubernetes: the manifests can be built', { timeout, skip: missing('kubectl') }, async (t) => {
  const kubernetes = recipe('kubernetes')
  for (const [folder = ''] of kubernetes.text.matchAll(/deploy\/kubernetes\/\w+(?=[\s`>/])/g)) {
    assert.ok(existsSync(join(CLONE, folder, 'kustomization.yaml')), folder)
  }
  const { program } = await run(t, kubernetes)
  assert.ok(Number(await printed(program)) > 3)
})

/** These blocks of the guide start servers, install packages or read files of a clone, so they are not run. */
const NOT_RUN = /npm (ci|start|pack)|parley\(\) \{|parley listen|^parley check$|admin-token/m

test('the commands of the guide and of the page about jobs succeed', {
  timeout,
  skip: missing('bash', 'curl', 'jq'),
}, async (t) => {
  const [guide, jobs] = ['guide.md', 'jobs.md'].map((path) => pageAt(path).of('sh'))
  const api = `api() { curl -s -H "x-api-key: $PARLEY_API_KEY" -H 'content-type: application/json' "$@"; }\n`
  const toCancel = "id=$(parley send --no-wait '[[delay 60s]] Wait.')\n"
  const [first = '', waits = '', ...others] = jobs ?? []
  const commands = (guide ?? []).filter((block) => !NOT_RUN.test(block))
  const page = { files: new Map(), of: () => [api, ...commands, first, waits, toCancel, ...others] }
  const settings = { callbacks: { allow_networks: ['127.0.0.0/8'] } }
  const { program } = await run(t, page, { settings })
  const said = await printed(program)
  assert.match(said, /^ +100 completed$/m)
  assert.match(said, /"cancelled_by":"caller"/)
  assert.match(said, /"deleted":true/)
})

test('setting: every file and command that it names exists', () => {
  const { text } = recipe('setting')
  const { scripts } = JSON.parse(readFileSync(join(CLONE, 'package.json'), 'utf8'))
  for (const [, path = ''] of text.matchAll(/`((?:src|docs)\/[\w./-]+|\w+\.md|[\w.]+\.json)`/g)) {
    assert.ok(existsSync(join(CLONE, path)), path)
  }
  for (const [, name = ''] of text.matchAll(/npm run (?:-s )?([\w:]+)/g)) assert.ok(scripts[name], name)
})
