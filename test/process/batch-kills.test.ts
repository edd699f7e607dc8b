/** A batch goes on after kill -9 of the node that runs it, and each of its lines has one result. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import OpenAI, { toFile } from 'openai'
import { reply, startModelServer } from '../model-server.ts'
import { freshRealDatabase } from '../postgres/database.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { type Installation, installation, type Server } from './server-process.ts'

const LINES = LONG ? 50_000 : 1500
const KILLS = LONG ? 10 : 3
const ANSWER_MS = 20
const timeout = LONG ? 3_600_000 : 300_000
/** A lease that is short enough to wait for. */
const settings = { jobs: { lease_seconds: 3, max_attempts: 1000 } }

test(`${KILLS} kills of a server on SQLite during a batch of ${LINES} lines`, { timeout }, async (t) => {
  const place = await stage(t, {})
  const { key } = place
  let server = await place.start()
  await kills(t, place, server, {
    key,
    next: async () => {
      await server.crash()
      server = await place.start()
      return server
    },
  })
})

test(`${KILLS} kills of nodes in turn on Postgres during a batch of ${LINES} lines`, {
  timeout,
}, async (t) => {
  const place = await stage(t, { databaseUrl: await freshRealDatabase(t) })
  const nodes = [await place.start(), await place.start()]
  let at = 0
  await kills(t, place, nodes[1] as Server, {
    key: place.key,
    next: async () => {
      await nodes[at]?.crash()
      nodes[at] = await place.start()
      at = 1 - at
      // The one that is killed next, so its answers show what the other one has stored.
      return nodes[at] as Server
    },
  })
})

interface Place {
  readonly key: string
  /** How often the model was called for each line. */
  readonly calls: ReadonlyMap<string, number>
  start(): Promise<Server>
}

async function stage(t: TestContext, options: { readonly databaseUrl?: string }): Promise<Place> {
  const calls = new Map<string, number>()
  const models = await startModelServer({
    keep: false,
    script: ({ body }) => {
      const content = String(body.messages?.at(-1)?.content)
      calls.set(content, (calls.get(content) ?? 0) + 1)
      return content.endsWith('7') ? reply.after(ANSWER_MS, reply.status(400)) : reply.after(ANSWER_MS)
    },
  })
  t.after(() => models.close())
  const place: Installation = await installation(t, { upstream: models.baseUrl, settings, ...options })
  const created = await place.parley(['keys', 'create', '--account', 'acme', '--tier', 'user_max'])
  return { key: created.stdout.trim(), calls, start: () => place.start() }
}

async function kills(
  t: TestContext,
  { calls }: Place,
  first: Server,
  { key, next }: { readonly key: string; readonly next: () => Promise<Server> },
): Promise<void> {
  const clientOf = (server: Server) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key })
  let openai = clientOf(first)
  const ids = Array.from({ length: LINES }, (_, n) => `line ${n}`)
  const text = ids.map((id) => JSON.stringify(lineOf(id))).join('\n')
  const file = await openai.files.create({
    file: await toFile(Buffer.from(text), 'in.jsonl'),
    purpose: 'batch',
  })
  const { id } = await openai.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  })
  const progressed = (least: number) =>
    eventually(
      () => openai.batches.retrieve(id),
      ({ status, request_counts: counts }) =>
        status === 'completed' || (counts?.completed ?? 0) + (counts?.failed ?? 0) >= least,
      { signal: t.signal },
    )
  for (let kill = 1; kill <= KILLS; kill++) {
    await progressed((LINES * kill) / (KILLS + 2))
    openai = clientOf(await next())
  }
  const batch = await progressed(Number.POSITIVE_INFINITY)
  const failing = ids.filter((line) => line.endsWith('7'))
  assert.deepEqual(batch.request_counts, {
    total: LINES,
    completed: LINES - failing.length,
    failed: failing.length,
  })
  const lines = async (fileId: string | undefined) => {
    const all = await (await openai.files.content(fileId ?? '')).text()
    return all
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).custom_id)
  }
  assert.deepEqual((await lines(batch.error_file_id)).sort(), failing.toSorted())
  const answered = ids.filter((line) => !failing.includes(line))
  assert.deepEqual((await lines(batch.output_file_id)).sort(), answered.toSorted())
  const again = [...calls.values()].reduce((sum, count) => sum + count - 1, 0)
  t.diagnostic(`${LINES} lines, ${KILLS} kills: ${again} calls were repeated`)
  // Only what was running when a node was killed.
  assert.ok(again <= KILLS * MAX_CALLS, `${again} repeated calls`)
  assert.ok(Math.max(...calls.values()) <= 1 + KILLS)
}

/** How many calls of the model a node makes at the same time: OPENAI_MAX_CONCURRENCY in these tests. */
const MAX_CALLS = 256

const lineOf = (id: string) => ({
  custom_id: id,
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'gpt-5-mini', messages: [{ role: 'user', content: id }] },
})
