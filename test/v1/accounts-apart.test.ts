/** Tests that below /v1, on every route, another account's response, file or batch gets the same error as a missing one. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import test from 'node:test'
import { toFile } from 'openai'
import { startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { type Answer, startParley } from '../parley.ts'
import { eventually } from '../support/eventually.ts'
import { openaiOf } from './official-client.ts'

const CHANGING = ['date', 'x-request-id', 'ratelimit-remaining', 'ratelimit-reset']
const CHAT = '/v1/chat/completions'

/** Returns everything in a response that might reveal whether the ID belongs to another account or does not exist. */
function traits({ status, text, headers }: Answer, id: string) {
  const others = [...headers].filter(([name]) => !CHANGING.includes(name))
  return { status, text: text.replaceAll(id, 'ID'), headers: others }
}

onEachStore(() => {
  test('another account’s resources, on every route with an ID, and as the input of a batch', async (t) => {
    const models = await startModelServer({}, t)
    const parley = await startParley(t, { upstream: models.baseUrl })
    const mine = openaiOf(parley, await parley.key('user_max', 'mine'))
    const other = await parley.key('user_max', 'other')
    const model = 'gpt-5-mini'
    const { id: response } = await mine.responses.create({ model, input: 'Hello', background: true })
    const line = {
      ...{ custom_id: 'a', method: 'POST', url: CHAT },
      body: { model, messages: [{ role: 'user', content: 'Hello' }] },
    }
    const { id: file } = await mine.files.create({
      file: await toFile(Buffer.from(JSON.stringify(line)), 'in.jsonl'),
      purpose: 'batch',
    })
    const wish = { endpoint: CHAT, completion_window: '24h' } as const
    const { id: batch } = await mine.batches.create({ input_file_id: file, ...wish })
    const ended = await eventually(
      () => mine.batches.retrieve(batch),
      ({ status }) => status === 'completed',
      { signal: t.signal },
    )

    const ask = (method: string, path: string, body?: object) =>
      parley.request(path, {
        method,
        headers: { authorization: `Bearer ${other}`, ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
      })
    const same = async (id: string, send: (id: string) => Promise<Answer>) => {
      const unknown = id.replace(/[0-9a-f-]{36}$/, randomUUID())
      assert.deepEqual(traits(await send(id), id), traits(await send(unknown), unknown))
    }
    const { paths } = (await parley.get('/v1/openapi.json')).body as { paths: Record<string, object> }
    const routes = Object.entries(paths)
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => ({ method, path })))
      .filter(({ path }) => path.includes('{') && !path.includes('/models/'))
    assert.equal(routes.length, 9)
    for (const { method, path } of routes) {
      const output = ended.output_file_id ?? ''
      const ids = path.includes('/files/') ? [file, output] : [path.includes('/batches/') ? batch : response]
      for (const id of ids) {
        const send = (one: string) => ask(method.toUpperCase(), path.replace(/\{.*\}/, one))
        assert.equal((await send(id)).status, 404, `${method} ${path}`)
        await same(id, send)
      }
    }
    await same(file, (id) => ask('POST', '/v1/batches', { input_file_id: id, ...wish }))
    for (const list of ['files', 'batches']) assert.deepEqual((await ask('GET', `/v1/${list}`)).body.data, [])
    assert.equal((await mine.files.retrieve(file)).id, file)
    assert.deepEqual(await mine.batches.retrieve(batch), ended)
  })
})
