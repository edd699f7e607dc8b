/** Tests that requests of OpenAI's client, held or in the background, survive kills of the server. */
import assert from 'node:assert/strict'
import test from 'node:test'
import OpenAI from 'openai'
import { type ModelServerOptions, reply, startModelServer } from '../model-server.ts'
import { startFleet } from '../nodes/fleet.ts'
import { startReceiver } from '../receiver.ts'
import { startServer } from './started-server.ts'

/** The client waits half a second to eight seconds between retries, which is enough for a restart even on a slow machine. */
const PATIENT = { maxRetries: 40 }
/** The model server holds its answers back. Each answer is the number of its call. */
const NUMBERED: ModelServerOptions = { script: (_request, index) => reply.stall(reply.text(`${index}`)) }
const KILLS = 2
const EQUAL = 3

test('on Postgres, a retry gets the answer of a node that was killed, from another one', async (t) => {
  const models = await startModelServer(NUMBERED, t)
  const fleet = await startFleet(t, { nodes: 2, upstream: models.baseUrl })
  const [first, second] = fleet.nodes
  if (!first || !second) throw new Error('two nodes were started')
  // A load balancer sends nothing more to a node that does not answer.
  let url = first.url
  const balanced: typeof fetch = async (input, init) => {
    try {
      return await fetch(String(input).replace(first.url, url), init)
    } catch (error) {
      url = second.url
      throw error
    }
  }
  const openai = new OpenAI({ baseURL: `${first.url}/v1`, apiKey: fleet.key, fetch: balanced, ...PATIENT })
  const body = { model: 'gpt-5-mini', messages: [{ role: 'user' as const, content: 'Hello' }] }
  const asked = openai.chat.completions.create(body)
  await models.received(1)
  first.kill('SIGKILL')
  models.script = (_request, index) => reply.text(`${index}`)
  const { choices } = await asked
  assert.equal(choices[0]?.message.content, '1')
  assert.equal(models.completions().length, 2)
})

test('after kills, retries of equal requests get different answers, and each kill costs at most one call for each', async (t) => {
  const { models, place, server: first, key } = await startServer(t, { models: NUMBERED })
  let server = first
  const port = new URL(server.url).port
  const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, ...PATIENT })
  const body = {
    model: 'gpt-5-mini',
    messages: [{ role: 'user' as const, content: 'Hello' }],
    temperature: 1,
  }
  const asked = Array.from({ length: EQUAL }, () => openai.chat.completions.create(body))
  for (let kill = 1; kill <= KILLS; kill++) {
    // Jobs of a crashed process run alone at first, so the later kills find one of them at the model server.
    await models.received(EQUAL + kill - 1)
    server.kill('SIGKILL')
    await server.exited
    server = await place.start({ env: { PORT: port } })
  }
  models.script = (_request, index) => reply.text(`${index}`)
  models.release()
  const texts = (await Promise.all(asked)).map(({ choices }) => choices[0]?.message.content)
  assert.equal(new Set(texts).size, EQUAL, `${texts}`)
  assert.ok(models.completions().length <= EQUAL * (KILLS + 1), `${models.completions().length} calls`)
})

test('a background response survives a kill, and its event is sent', async (t) => {
  const receiver = await startReceiver({}, t)
  const settings = { callbacks: { allow_networks: ['127.0.0.0/8'] } }
  const started = await startServer(t, { models: { script: () => reply.stall() }, settings })
  const { models, place, server: killed, key: apiKey } = started
  await place.output(['accounts', 'webhook', 'default', receiver.url])
  const { stdout } = await place.parley(['accounts', 'secret', 'default'])
  const of = ({ url }: { url: string }) =>
    new OpenAI({ baseURL: `${url}/v1`, apiKey, webhookSecret: stdout.trim() })
  const created = await of(killed).responses.create({
    model: 'gpt-5-mini',
    input: 'Hello',
    background: true,
  })
  await models.received(1)
  killed.kill('SIGKILL')
  await killed.exited
  models.script = () => reply.text('Hi.')
  const openai = of(await place.start())
  const [request] = await receiver.received(1)
  const event = await openai.webhooks.unwrap(request?.body ?? '', request?.headers as Record<string, string>)
  assert.deepEqual([event.type, event.data], ['response.completed', { id: created.id }])
  assert.equal((await openai.responses.retrieve(created.id)).output_text, 'Hi.')
  assert.equal(models.completions().length, 2)
})
