/**
 * Tests that no caller notices when nodes behind a reverse proxy restart one after the other. Uses the configurations in
 * deploy/, TCP and Unix sockets, and a proxy that learns seconds late that a node stops, as in Kubernetes. Needs nginx or Caddy
 * on the PATH.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import test, { type TestContext } from 'node:test'
import { setTimeout as passed } from 'node:timers/promises'
import { Agent, type Dispatcher, request } from 'undici'
import { reply, startModelServer } from '../model-server.ts'
import { freshRealDatabase } from '../postgres/database.ts'
import { jobOf } from '../process/caller.ts'
import { rows } from '../process/rows.ts'
import { CLONE, type Installation, installation, MAIN, type Program } from '../process/server-process.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'

/** If root starts nginx, its workers run as another user, who may not use the sockets. */
const AS_ROOT = process.getuid?.() === 0 ? 'user root;\n' : ''
const RESTARTS = 20
const CALLERS = 24
/** A stopping node still listens for this long, so that a health check of the Caddyfile finds out in time. */
const LISTEN_S = 5
/** In some runs, the proxy learns this many milliseconds late that a node stops. */
const LATE_MS = LISTEN_S * 600
const ANSWERS_BETWEEN = 2000
const ANSWER_MS = 20
const CHAT = '/v1/chat/completions'
/** In the long form, an uploaded file is almost as large as the limit allows. */
const FILE_MB = LONG ? 199 : 4
const LINE_BYTES = 20_000
const FILE_LINES = (FILE_MB * 1_000_000) / LINE_BYTES

/** `env` is for the node, and `address` for the proxy's configuration. */
interface Place {
  readonly env: Readonly<Record<string, string>>
  readonly address: string
}

interface Proxy {
  readonly name: string
  readonly version: readonly string[]
  /** Returns the configuration in deploy/ with other addresses and without TLS, which would need a domain. */
  configured(text: string, socket: string, folder: string, nodes: readonly string[]): string
  readonly file: string
  /** Says why the proxy is not tested with nodes on Unix sockets. The field is absent if it is. */
  readonly problemOnSockets?: string
  start(path: string): readonly string[]
  reload(path: string): readonly string[]
}

const NGINX: Proxy = {
  name: 'nginx',
  version: ['-v'],
  file: 'nginx.conf',
  configured: (text, socket, folder, nodes) => {
    const servers = nodes.map((node) => `server ${node} max_fails=0;`)
    const changed = text
      .replaceAll('server 127.0.0.1:8080 max_fails=0;', servers.join('\n'))
      .replace('listen 443 ssl;', `listen unix:${socket};`)
      .replace('listen 127.0.0.1:8081;', `listen unix:${socket}.operators;`)
      .replace(/ssl_certificate\w* .*;/g, '')
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (kind) => `${kind}_temp_path ${folder}/${kind};`,
    )
    return `${AS_ROOT}daemon off;\npid ${folder}/nginx.pid;\nerror_log ${folder}/nginx.log;\n${changed.replace(
      'http {',
      `http {\naccess_log off;\n${temporary.join('\n')}`,
    )}`
  },
  start: (path) => ['nginx', '-e', 'stderr', '-c', path],
  reload: (path) => ['nginx', '-e', 'stderr', '-c', path, '-s', 'reload'],
}

const CADDY: Proxy = {
  name: 'caddy',
  version: ['version'],
  file: 'Caddyfile',
  problemOnSockets:
    'Caddy 2.6.2 counts all nodes on Unix sockets as one in its health checks, and sends a request to a second node without its body',
  configured: (text, socket, _folder, nodes) =>
    text
      .replaceAll(
        'reverse_proxy 127.0.0.1:8080',
        `reverse_proxy ${nodes.map((node) => node.replace(/^unix:/, 'unix/')).join(' ')}`,
      )
      .replace(/^api\.example\.com \{/m, `http:// {\nbind unix/${socket}`)
      .replace(
        'http://127.0.0.1:8081 {\n\tbind 127.0.0.1',
        `http://operators {\nbind unix/${socket}.operators`,
      )
      .replace(/^\{/m, `{\nadmin unix/${socket}.admin\nauto_https off`),
  start: (path) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', path],
  reload: (path) => ['caddy', 'reload', '--adapter', 'caddyfile', '--config', path],
}

const RUNS: readonly (readonly [nodes: string, run: Run])[] = [
  ['on TCP', { onSockets: false, hearsLate: false }],
  ['on Unix sockets', { onSockets: true, hearsLate: false }],
  ['that leave its configuration late', { onSockets: false, hearsLate: true }],
]

for (const proxy of [NGINX, CADDY]) {
  const isThere = spawnSync(proxy.name, [...proxy.version]).status === 0
  const isMissing = isThere ? false : `${proxy.name} is not installed`
  for (const [nodes, run] of RUNS) {
    const problem = run.onSockets ? proxy.problemOnSockets : undefined
    const skip = problem ?? (LONG ? isMissing : 'only in the long form: it takes minutes')
    const title = `${proxy.name}: ${RESTARTS} restarts of nodes ${nodes} fail no request`
    test(title, { skip }, (t) => restarts(t, proxy, run))
  }
  const title = `${proxy.name}: a file of ${FILE_MB} MB is stored while it arrives, and runs as a batch`
  test(title, { skip: isMissing }, (t) => uploadAndBatch(t, proxy))
}

interface Run {
  readonly onSockets: boolean
  /** If true, the proxy gets a new configuration only `LATE_MS` after a node was told to stop. */
  readonly hearsLate: boolean
}

async function restarts(t: TestContext, proxy: Proxy, { onSockets, hearsLate }: Run): Promise<void> {
  const models = await startModelServer({ script: () => reply.after(ANSWER_MS), keep: false }, t)
  const place = await installation(t, {
    upstream: models.baseUrl,
    databaseUrl: await freshRealDatabase(t),
    settings: { trust_proxy: '127.0.0.1', shutdown: { listen_seconds: LISTEN_S } },
  })
  const key = await place.key('acme')
  const nodes: { program: Program; readonly at: Place }[] = []
  for (const name of ['a', 'b']) nodes.push(await startNode(place, onSockets ? onSocket(place, name) : null))
  const addresses = nodes.map(({ at }) => at.address)
  const running = await startProxy(place, proxy, addresses)

  // A proxy that gets a new configuration closes its callers' connections.
  const callers = new Callers(running.socket, key, { keepsAlive: !hearsLate })
  t.after(() => callers.close())
  for (let restart = 0; restart < RESTARTS; restart++) {
    await callers.answered(t, ANSWERS_BETWEEN)
    const node = nodes[restart % nodes.length]
    assert.ok(node)
    node.program.kill('SIGTERM')
    const others = addresses.filter((address) => address !== node.at.address)
    if (hearsLate) await passed(LATE_MS).then(() => running.use(others))
    assert.deepEqual(await node.program.exited, { code: 0, signal: null })
    node.program = (await startNode(place, node.at)).program
    if (hearsLate) await running.use(addresses)
  }
  await callers.answered(t, ANSWERS_BETWEEN)
  await callers.close()
  t.diagnostic(`${callers.answers} answers, ${callers.failures.length} failures`)
  assert.deepEqual(callers.failures.slice(0, 10), [])
}

async function uploadAndBatch(t: TestContext, proxy: Proxy): Promise<void> {
  const models = await startModelServer({ keep: false }, t)
  const place = await installation(t, { upstream: models.baseUrl, settings: { trust_proxy: '127.0.0.1' } })
  const { program, at } = await startNode(place, null)
  const [key = ''] = await program.line(/prl_\w+/)
  const { socket } = await startProxy(place, proxy, [at.address])
  const dispatcher = new Agent({ connect: { socketPath: socket } })
  t.after(() => dispatcher.destroy())
  const ask = async (path: string, { headers, ...options }: Partial<Dispatcher.RequestOptions> = {}) => {
    const answer = await request(`http://parley/v1${path}`, {
      ...{ dispatcher, ...options },
      headers: { ...headers, authorization: `Bearer ${key}` },
    })
    const text = await answer.body.text()
    assert.equal(answer.statusCode, 200, text)
    return text
  }
  const content = async function* () {
    yield Buffer.from('--xyz\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n')
    for (let line = 0; line < FILE_LINES; line++) {
      // A proxy that buffers requests forwards nothing before it has the whole body.
      if (line === FILE_LINES / 2)
        await eventually(
          () => storedBytes(place),
          (bytes) => bytes > 0,
          { signal: t.signal },
        )
      yield lineOf(line)
    }
    yield Buffer.from(
      '\r\n--xyz\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--xyz--\r\n',
    )
  }
  const file = await ask('/files', {
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=xyz' },
    body: Readable.from(content()),
  })
  const { id, bytes } = JSON.parse(file)
  assert.equal(bytes, FILE_LINES * LINE_BYTES)
  const created = await ask('/batches', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input_file_id: id, endpoint: CHAT, completion_window: '24h' }),
  })
  const batch = await eventually(
    async () => JSON.parse(await ask(`/batches/${JSON.parse(created).id}`)),
    ({ status }) => status === 'completed',
    { signal: t.signal },
  )
  assert.equal(batch.request_counts.completed, FILE_LINES)
  const results = await ask(`/files/${batch.output_file_id}/content`)
  assert.equal(results.trimEnd().split('\n').length, FILE_LINES)
}

function storedBytes({ database }: Installation): number {
  return Number(rows(database, 'select coalesce(sum(bytes), 0) as bytes from files')[0]?.bytes)
}

function lineOf(line: number): Buffer {
  const words = (length: number) => 'a word '.repeat(LINE_BYTES / 7).slice(0, length)
  const withText = (text: string) => {
    const body = { model: 'gpt-5-mini', messages: [{ role: 'user', content: `${line} ${text}` }] }
    return `${JSON.stringify({ custom_id: `${line}`, method: 'POST', url: CHAT, body })}\n`
  }
  return Buffer.from(withText(words(LINE_BYTES - withText('').length)))
}

function onSocket({ folder }: Installation, name: string): Place {
  const path = join(folder, `${name}.sock`)
  return { env: { HOST: `unix:${path}` }, address: `unix:${path}` }
}

/** @param at where the node listened before, or null for any port */
async function startNode(place: Installation, at: Place | null): Promise<{ program: Program; at: Place }> {
  const program = place.spawn([process.execPath, MAIN, 'serve'], { env: at?.env ?? {} })
  const [, url = ''] = await program.line(/listening on (\S+)\n/)
  if (at) return { program, at }
  const { port } = new URL(url)
  return { program, at: { env: { PORT: port }, address: `127.0.0.1:${port}` } }
}

async function startProxy(place: Installation, proxy: Proxy, nodes: readonly string[]) {
  const { folder } = place
  const socket = join(folder, 'proxy.sock')
  const path = join(folder, proxy.file)
  const text = await readFile(join(CLONE, 'deploy', proxy.file), 'utf8')
  const write = (used: readonly string[]) => writeFile(path, proxy.configured(text, socket, folder, used))
  await write(nodes)
  const program = place.spawn(proxy.start(path), { env: { HOME: folder } })
  const dispatcher = new Agent({ connect: { socketPath: socket } })
  const isUp = async () => {
    const { statusCode } = await request('http://parley/v1/models', { dispatcher })
    return statusCode === 401
  }
  await Promise.race([
    eventually(() => isUp().catch(() => false), Boolean),
    program.exited.then(() => assert.fail(`${proxy.name} ended: ${program.stderr}`)),
  ])
  await dispatcher.destroy()
  return {
    socket,
    async use(used: readonly string[]) {
      await write(used)
      const reload = place.spawn(proxy.reload(path), { env: { HOME: folder } })
      assert.equal((await reload.exited).code, 0, reload.stderr)
    },
  }
}

class Callers {
  answers = 0
  readonly failures: string[] = []
  readonly #dispatcher: Agent
  readonly #key: string
  readonly #loops: Promise<void>[]
  #isClosed = false

  constructor(socketPath: string, key: string, { keepsAlive }: { readonly keepsAlive: boolean }) {
    this.#key = key
    this.#dispatcher = new Agent({ connect: { socketPath }, pipelining: keepsAlive ? 1 : 0 })
    this.#loops = Array.from({ length: CALLERS }, () => this.#loop())
  }

  answered(t: TestContext, more: number): Promise<unknown> {
    const wanted = this.answers + more
    return eventually(
      () => this.answers + this.failures.length,
      (count) => count >= wanted,
      { signal: t.signal },
    )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#loops)
    await this.#dispatcher.destroy()
  }

  async #loop(): Promise<void> {
    for (let sent = 0; !this.#isClosed; sent++) {
      try {
        const { statusCode, body } = await request('http://parley/api/v1/messages', {
          dispatcher: this.#dispatcher,
          method: 'POST',
          headers: { 'x-api-key': this.#key, 'content-type': 'application/json' },
          body: JSON.stringify(jobOf(`request ${sent}`)),
        })
        const text = await body.text()
        // 202 means that the job is stored, and continues while its node stops.
        if (statusCode === 200 || statusCode === 202) this.answers++
        else this.failures.push(`${statusCode} ${text.slice(0, 60)}`)
      } catch (error) {
        this.failures.push(String(error))
      }
    }
  }
}
