/** Checks that recorded bodies of /v1/responses have the types that OpenAI's own client promises. */
import test from 'node:test'
import { startStage } from '../http/stage.ts'
import { reply } from '../model-server.ts'
import { onAnyStore } from '../on-each-store.ts'
import type { Answer } from '../parley.ts'
import { assertTypes, type TypedBody } from './body-types.ts'

/** Omits `output_text`, which the client adds. */
const RESPONSE = "Omit<OpenAI.Responses.Response, 'output_text'>"
const LIST =
  '{ object: "list"; data: OpenAI.Responses.ResponseItem[]; first_id: string; last_id: string; has_more: boolean }'
const INPUT = [
  { role: 'system', content: 'one' },
  { role: 'assistant', content: 'two' },
  { role: 'user', content: 'three' },
]

onAnyStore(() => {
  test('every state of a response, its deletion and its input items', async (t) => {
    const { parley, models } = await startStage(t)
    const authorization = `Bearer ${await parley.key()}`
    const send = async (method: string, path: string, body?: object): Promise<Answer['body']> => {
      const type = body && { 'content-type': 'application/json' }
      const headers = { authorization, ...type }
      return (await parley.request(path, { method, headers, ...(body && { body: JSON.stringify(body) }) }))
        .body
    }
    const create = (over: object = {}) =>
      send('POST', '/v1/responses', { model: 'gpt-5-mini', input: 'Hello', ...over })
    const bodies: TypedBody[] = []
    const record = (...responses: unknown[]) => {
      for (const one of responses) bodies.push([RESPONSE, one])
    }
    const schema = { type: 'object', properties: { a: { type: 'string' } } }
    const format = { type: 'json_schema', name: 'a', description: 'An a.', strict: true, schema }

    models.script = () => reply.text('Hi.')
    const full = {
      instructions: 'Be brief.',
      metadata: { a: 'b' },
      reasoning: { effort: 'low' },
      max_output_tokens: 9,
    }
    const completed = await create({ ...full, input: INPUT })
    record(completed)
    bodies.push([LIST, await send('GET', `/v1/responses/${completed.id}/input_items`)])
    models.script = () => reply.json({ a: 'b' })
    record(await create({ text: { format } }), await create({ text: { format: { type: 'json_object' } } }))
    models.script = () => reply.truncated('H')
    record(await create())
    models.script = () => reply.contentFilter()
    record(await create())
    models.script = () => reply.status(400)
    const failing = await create({ background: true })
    for (let state = failing; ; state = await send('GET', `/v1/responses/${failing.id}`)) {
      if (state.status !== 'failed') continue
      record(state)
      break
    }
    models.script = () => reply.stall()
    const queued = await create({ background: true })
    const received = models.requests.length
    if (received < 7) await models.received(7)
    record(queued, await send('GET', `/v1/responses/${queued.id}`))
    record(await send('POST', `/v1/responses/${queued.id}/cancel`))
    await send('DELETE', `/v1/responses/${queued.id}`)
    assertTypes(bodies)
  })
})
