#!/usr/bin/env node
/**
 * Kills a server with OpenAI's Batch API repeatedly while it runs a batch, and reports what happened to each line. It needs only
 * Node 20 or newer. conformance/README.md explains the options and the report.
 */
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { setTimeout as passed } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const USAGE = `node batch.mjs --base-url http://127.0.0.1:8080/v1 --model NAME --restart COMMAND [--key KEY] [--lines 1000]
  [--line-bytes 0] [--kills 3] [--timeout 3600] [--model-port PORT [--model-ms 20]]`
const ENDED = ['completed', 'failed', 'expired', 'cancelled']
const POLL_MS = 200
/** If the server has had an answer for this long before a kill, the answer should be stored. */
const STORED_WITHIN_MS = 1000
/** The report names this many examples of each problem. */
const NAMED = 5
const WORDS =
  'a model server answers each line of a file once, also if the machine in front of it is turned off '

const options = {
  'base-url': { type: 'string' },
  key: { type: 'string', default: process.env.OPENAI_API_KEY ?? '' },
  model: { type: 'string' },
  restart: { type: 'string' },
  lines: { type: 'string', default: '1000' },
  'line-bytes': { type: 'string', default: '0' },
  kills: { type: 'string', default: '3' },
  timeout: { type: 'string', default: '3600' },
  'model-port': { type: 'string' },
  'model-ms': { type: 'string', default: '20' },
}

/** Whether this program's model server rejects the line, which then belongs in the error file. */
const isRejected = (id) => id.endsWith('7')
const answerTo = (id) => `The answer to ${id}.`

function wanted() {
  try {
    const { values } = parseArgs({ options })
    if (values['base-url'] && values.model && values.restart) return values
  } catch (error) {
    process.stderr.write(`${error.message}\n`)
  }
  process.stderr.write(`${USAGE}\n`)
  process.exit(2)
}

/** Starts a model server that answers each line after a delay, and records when it was asked and when it had answered. */
async function startModelServer(port, answerMs) {
  const calls = new Map()
  const server = createServer((request, response) => {
    const send = (status, body) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    const pieces = []
    request.on('data', (piece) => pieces.push(piece))
    request.on('end', () => {
      if (request.method !== 'POST') return send(200, { object: 'list', data: [] })
      const { model, messages = [] } = JSON.parse(Buffer.concat(pieces).toString())
      const [id = ''] = /^line-\d+/.exec(String(messages.at(-1)?.content)) ?? []
      const call = { calledMs: Date.now(), answeredMs: Number.POSITIVE_INFINITY }
      if (id !== '') calls.set(id, [...(calls.get(id) ?? []), call])
      response.once('finish', () => {
        call.answeredMs = Date.now()
      })
      setTimeout(() => {
        if (isRejected(id))
          return send(400, { error: { message: 'This line is rejected.', type: 'invalid' } })
        const message = { role: 'assistant', content: answerTo(id), refusal: null }
        const choices = [{ index: 0, message, logprobs: null, finish_reason: 'stop' }]
        const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
        send(200, { id: 'chatcmpl-1', object: 'chat.completion', created: 1, model, choices, usage })
      }, answerMs)
    })
  })
  await new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
  return { calls, close: () => server.closeAllConnections() ?? server.close() }
}

function lineOf(id, model, bytes) {
  const content = `${id}: ${WORDS.repeat(Math.ceil(bytes / WORDS.length)).slice(0, bytes)}`
  const body = { model, messages: [{ role: 'user', content }] }
  return `${JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body })}\n`
}

/** Resolves with a response with a status of 2xx. While the server is down, the request is repeated if that is safe. */
async function ask(server, path, { mayRepeat = true, ...init } = {}) {
  for (;;) {
    const headers = { authorization: `Bearer ${server.key}`, ...init.headers }
    try {
      const response = await fetch(server.baseUrl + path, { ...init, headers })
      if (response.ok) return response
      const text = await response.text()
      const isTemporary = response.status === 429 || response.status >= 500
      if (!mayRepeat || !isTemporary) throw new Refused(`${path} was answered ${response.status}: ${text}`)
    } catch (error) {
      if (!mayRepeat || error instanceof Refused) throw error
    }
    if (Date.now() > server.untilMs) throw new Error(`${path} got no answer in time (--timeout)`)
    await passed(POLL_MS)
  }
}

class Refused extends Error {}

async function submit(server, parts) {
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob(parts), 'lines.jsonl')
  const file = await (await ask(server, '/files', { mayRepeat: false, method: 'POST', body: form })).json()
  const wish = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' }
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify(wish)
  return (await ask(server, '/batches', { mayRepeat: false, method: 'POST', headers, body })).json()
}

/** Waits until that many of the batch's lines have ended or were answered, or the batch has ended. */
async function progressed(server, id, lines, model) {
  for (;;) {
    const batch = await (await ask(server, `/batches/${id}`)).json()
    const { completed = 0, failed = 0 } = batch.request_counts ?? {}
    if (ENDED.includes(batch.status)) return batch
    if (Math.max(completed + failed, model?.calls.size ?? 0) >= lines) return batch
    if (Date.now() > server.untilMs) throw new Error(`the batch is still ${batch.status} (--timeout)`)
    await passed(POLL_MS)
  }
}

function run(command, kill) {
  const child = spawn(command, {
    shell: true,
    stdio: ['ignore', 2, 2],
    env: { ...process.env, KILL: String(kill) },
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`--restart ended with ${code}`))))
  })
}

async function* resultsIn(server, fileId) {
  if (!fileId) return
  const { body } = await ask(server, `/files/${fileId}/content`)
  for await (const line of createInterface({ input: Readable.fromWeb(body) }))
    if (line !== '') yield JSON.parse(line)
}

/** Sorts the lines of both files by their problem. */
async function judge(server, batch, ids, model) {
  const seen = new Map([...ids].map((id) => [id, 0]))
  const [doubled, unknown, wrong] = [new Set(), new Set(), new Set()]
  const counts = { answered: 0, errors: 0 }
  const take = ({ custom_id: id }, isRight) => {
    if (!seen.has(id)) unknown.add(id)
    else if (seen.get(id) > 0) doubled.add(id)
    seen.set(id, (seen.get(id) ?? 0) + 1)
    if (!isRight) wrong.add(id)
  }
  for await (const line of resultsIn(server, batch.output_file_id)) {
    const content = line.response?.body?.choices?.[0]?.message?.content
    const isExpected = model ? content === answerTo(line.custom_id) : typeof content === 'string'
    take(line, line.response?.status_code === 200 && isExpected)
    counts.answered += 1
  }
  for await (const line of resultsIn(server, batch.error_file_id)) {
    take(line, model ? isRejected(line.custom_id) : true)
    counts.errors += 1
  }
  const lost = [...ids].filter((id) => seen.get(id) === 0)
  return { ...counts, lost, doubled: [...doubled], unknown: [...unknown], wrong: [...wrong] }
}

/**
 * Returns lines that ran several times, and those among them whose answer the server had long before any kill that could have
 * destroyed it.
 */
function repeats({ calls }, kills) {
  const repeated = [...calls].filter(([, of]) => of.length > 1)
  const isExcused = ({ answeredMs }) =>
    kills.some(({ fromMs, toMs }) => answeredMs > fromMs - STORED_WITHIN_MS && answeredMs <= toMs)
  const stored = repeated.filter(([, of]) =>
    of.slice(0, -1).some((call) => Number.isFinite(call.answeredMs) && !isExcused(call)),
  )
  return { repeated: repeated.map(([id]) => id), stored: stored.map(([id]) => id) }
}

function print(name, ids) {
  const examples =
    ids.length > 0 ? ` (${ids.slice(0, NAMED).join(', ')}${ids.length > NAMED ? ', …' : ''})` : ''
  process.stdout.write(`${name}: ${ids.length}${examples}\n`)
}

async function main() {
  const values = wanted()
  const [lines, bytes, kills] = [values.lines, values['line-bytes'], values.kills].map(Number)
  const untilMs = Date.now() + Number(values.timeout) * 1000
  const server = { baseUrl: values['base-url'].replace(/\/$/, ''), key: values.key, untilMs }
  const port = values['model-port']
  const model = port === undefined ? null : await startModelServer(Number(port), Number(values['model-ms']))
  const note = (text) => process.stderr.write(`${new Date().toISOString()} ${text}\n`)

  const ids = new Set(Array.from({ length: lines }, (_, at) => `line-${at}`))
  note(`uploads ${lines} lines`)
  const { id } = await submit(
    server,
    [...ids].map((line) => lineOf(line, values.model, bytes)),
  )
  const startMs = Date.now()
  const done = []
  for (let kill = 1; kill <= kills; kill++) {
    const { status } = await progressed(server, id, (lines * (kill - 1)) / kills, model)
    if (ENDED.includes(status)) break
    note(`kill ${kill} of ${kills}; the batch is ${status}`)
    const fromMs = Date.now()
    await run(values.restart, kill)
    done.push({ fromMs, toMs: Date.now() })
  }
  const batch = await progressed(server, id, Number.POSITIVE_INFINITY, null)
  const seconds = (Date.now() - startMs) / 1000
  note(`the batch is ${batch.status}: downloads its results`)
  const found = await judge(server, batch, ids, model)

  process.stdout.write(`${lines} lines, ${done.length} kills, ${seconds.toFixed(1)} s: ${batch.status}\n`)
  process.stdout.write(`in the output file: ${found.answered}\nin the error file: ${found.errors}\n`)
  print('lost', found.lost)
  print('doubled', found.doubled)
  print('unknown', found.unknown)
  print('wrong', found.wrong)
  if (model) {
    const { repeated, stored } = repeats(model, done)
    print('repeated', repeated)
    print('repeated although answered before', stored)
    model.close()
  }
  const isRight = [found.lost, found.doubled, found.unknown, found.wrong].every(({ length }) => length === 0)
  process.exitCode = isRight && batch.status === 'completed' ? 0 : 1
}

await main()
