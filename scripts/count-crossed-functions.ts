/**
 * Counts the files and functions of `src/` that one settled single create crosses on the main thread: SQLite, a model
 * server over HTTP, V8's precise coverage of one request after twenty that warm up. Prints the median of several requests,
 * and with `--list` the functions of the median request.
 *
 *     node scripts/count-crossed-functions.ts [--list] [--main FILE]
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

const WARM_UP = 20
const COUNTED = 15
const ANSWER = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'counted',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
})

interface FunctionCoverage {
  readonly functionName: string
  readonly ranges: readonly { readonly startOffset: number; readonly count: number }[]
}
interface ScriptCoverage {
  readonly url: string
  readonly functions: readonly FunctionCoverage[]
}

const { values } = parseArgs({ options: { list: { type: 'boolean' }, main: { type: 'string' } } })
const main = resolve(values.main ?? fileURLToPath(new URL('../src/main.ts', import.meta.url)))
const src = dirname(main)

const folder = await mkdtemp(join(tmpdir(), 'parley-crossed-'))
const model = createServer((request, response) => {
  request.resume().on('end', () => response.setHeader('content-type', 'application/json').end(ANSWER))
})
await once(model.listen(0, '127.0.0.1'), 'listening')
const { port } = model.address() as AddressInfo
await writeFile(join(folder, 'parley.config.json'), JSON.stringify({ cache: { enabled: true } }))
const server = spawn(process.execPath, ['--inspect=127.0.0.1:0', main, 'serve'], {
  cwd: folder,
  env: {
    ...process.env,
    HOST: '127.0.0.1',
    PORT: '0',
    DATABASE_URL: `sqlite:${join(folder, 'parley.db')}`,
    OPENAI_API_KEY: 'sk-counted',
    OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
    OPENAI_MODEL: 'counted',
  },
  stdio: ['ignore', 'pipe', 'pipe'],
})
try {
  const [inspector, { url, key }] = await Promise.all([inspectorOf(server), startedAs(server)])
  const profiler = await connect(inspector)
  for (let count = 0; count < WARM_UP; count++) await createOne(url, key, count)
  await profiler.send('Profiler.enable')
  await profiler.send('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  const counts: (readonly string[])[] = []
  for (let count = 0; count < COUNTED; count++) {
    await profiler.send('Profiler.takePreciseCoverage')
    await createOne(url, key, WARM_UP + count)
    counts.push(crossed((await profiler.send('Profiler.takePreciseCoverage')).result))
  }
  profiler.close()
  const byNumber = counts.toSorted((a, b) => a.length - b.length)
  const median = byNumber[Math.floor(COUNTED / 2)] ?? []
  if (values.list) process.stdout.write(`${median.join('\n')}\n`)
  const files = new Set(median.map((one) => one.split(' ')[0]))
  const [least, most] = [byNumber[0]?.length, byNumber.at(-1)?.length]
  process.stdout.write(`${files.size} files, ${median.length} functions (${least} to ${most})\n`)
} finally {
  server.kill('SIGTERM')
  await once(server, 'exit')
  model.close()
  await rm(folder, { recursive: true, force: true })
}

/** Every function of `src/` that was called, as `FILE NAME@OFFSET`. Module bodies do not count. */
function crossed(scripts: readonly ScriptCoverage[]): readonly string[] {
  const root = pathToFileURL(`${src}/`).href
  return scripts
    .filter(({ url }) => url.startsWith(root))
    .flatMap(({ url, functions }) =>
      functions
        .filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0 && (ranges[0]?.startOffset ?? 0) > 0)
        .map(({ functionName, ranges }) => {
          const name = functionName === '' ? '(anonymous)' : functionName
          return `${relative(src, fileURLToPath(url))} ${name}@${ranges[0]?.startOffset}`
        }),
    )
    .toSorted()
}

async function createOne(url: string, key: string, count: number): Promise<void> {
  const response = await fetch(`${url}/api/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key },
    body: JSON.stringify({
      model: 'gpt-auto',
      response_format: { format: 'text' },
      messages: [{ role: 'user', content: `Say hello to number ${count}.` }],
    }),
  })
  const { data } = (await response.json()) as { data?: { status?: string } }
  assert.equal(data?.status, 'completed')
}

/** The address at which the inspector listens: Node prints it on standard error. */
async function inspectorOf({ stderr }: ChildProcess): Promise<string> {
  assert.ok(stderr)
  for await (const line of createInterface({ input: stderr })) {
    const [address] = /ws:\/\/\S+/.exec(line) ?? []
    if (address) {
      stderr.resume()
      return address
    }
  }
  throw new Error('the server ended before its inspector listened')
}

/** The server's address, and the API key that its first start prints. */
async function startedAs({ stdout }: ChildProcess): Promise<{ url: string; key: string }> {
  assert.ok(stdout)
  let text = ''
  for await (const piece of stdout) {
    text += String(piece)
    const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(text) ?? []
    const [key] = /prl_\w+/.exec(text) ?? []
    if (url && key && text.includes('listening on')) return { url, key }
  }
  throw new Error('the server ended before it listened')
}

/** Speaks the inspector's protocol: one command at a time. */
async function connect(address: string) {
  const socket = new WebSocket(address)
  await once(socket, 'open')
  let nextId = 0
  return {
    async send(method: string, params: object = {}): Promise<{ result: ScriptCoverage[] }> {
      const id = ++nextId
      socket.send(JSON.stringify({ id, method, params }))
      for (;;) {
        const [event] = (await once(socket, 'message')) as [MessageEvent<string>]
        const message = JSON.parse(event.data) as { id?: number; result: { result: ScriptCoverage[] } }
        if (message.id === id) return message.result
      }
    },
    close: () => socket.close(),
  }
}
