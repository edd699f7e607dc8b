/** No secret gets out: canaries in prompts, answers, keys, headers and payloads are found in no log, error or metric. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { type Answer, job, startParley } from '../parley.ts'

const ROUNDS = process.env.PARLEY_LONG ? 150 : 3

test('canaries are found in no log line, error answer, metric or list of keys', async (t) => {
  const canaries: string[] = []
  const canary = (kind: string) => {
    const text = `CANARY${kind}${randomBytes(9).toString('hex')}`
    canaries.push(text)
    return text
  }
  const upstreamKey = canary('upstreamkey')
  const answers = [
    () => reply.text(canary('answer')),
    () => reply.status(400, { body: { error: { message: `bad key ${upstreamKey}`, type: 'x' } } }),
    () => reply.status(500, { body: { error: { message: `Authorization: Bearer ${upstreamKey}` } } }),
    () => reply.garbage(),
    () => reply.reset(),
  ]
  const model = await startModelServer({ script: (_request, index) => answers[index % answers.length]?.() })
  t.after(() => model.close())
  const parley = await startParley(t, { upstream: model.baseUrl, upstreamKey })
  const key = await parley.key()
  canaries.push(key)

  const seen: Answer[] = []
  const send = async (path: string, body: unknown, apiKey: string, headers: Record<string, string> = {}) => {
    seen.push(await parley.post(path, body, apiKey, headers))
  }
  for (let round = 0; round < ROUNDS; round++) {
    const messages = () => [
      { role: 'system', content: canary('system') },
      { role: 'user', content: canary('prompt') },
    ]
    const callback = {
      callback_url: 'https://example.invalid/',
      callback_headers: { authorization: canary('header') },
      callback_payload: { secret: canary('payload') },
    }
    const batch = [job({ messages: messages(), callback })]
    await send('/api/v1/messages', job({ messages: messages() }), key)
    await send('/api/v1/messages/batches', batch, key)
    await send('/api/v1/messages', job({ messages: [{ role: 'x', content: canary('refused') }] }), key)
    await send('/api/v1/messages', `{"messages": [${canary('unparsable')}`, key)
    await send('/api/v1/messages', job(), `prl_${canary('wrongkey')}`)
    await send('/api/v1/messages', job({ messages: messages() }), key, {
      'idempotency-key': canary('idempotency'),
    })
    await send(`/api/v1/messages?x=${canary('query')}`, job({ messages: messages() }), key)
    seen.push(await parley.get(`/nowhere?token=${canary('query')}`, key))
  }
  const errors = seen.filter(({ status }) => status >= 400)
  assert.ok(errors.length >= ROUNDS * 3)
  const metrics = await parley.get('/metrics')
  const places = {
    log: JSON.stringify(parley.log),
    errors: errors.map(({ text }) => text).join('\n'),
    metrics: metrics.text,
    keys: JSON.stringify(await parley.store.listKeys()),
  }
  assert.ok(parley.log.length > ROUNDS * 7)
  for (const [place, text] of Object.entries(places)) {
    // Not even the beginning of one, as a parser's excerpt would show it.
    const found = [...canaries, 'CANARY'].filter((one) => text.includes(one))
    assert.deepEqual(found, [], `in the ${place}`)
  }
  // The upstream's key is in no answer at all, not even in a failed job's own words of the upstream.
  assert.ok(!seen.some(({ text }) => text.includes(upstreamKey)))
})
