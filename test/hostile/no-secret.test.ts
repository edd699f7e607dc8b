/**
 * Tests that no secret leaks: canaries in prompts, answers, keys, headers and payloads must not appear in any log, error or
 * metric.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { hashKey } from '../../src/accounts/key.ts'
import { reply, startModelServer } from '../model-server.ts'
import { onEachStore } from '../on-each-store.ts'
import { ADMIN_TOKEN, type Answer, job, startParley } from '../parley.ts'
import { LONG } from '../support/long-form.ts'

const ROUNDS = LONG ? 150 : 3
/** A round mostly waits for the pauses between calls, so rounds run at the same time. */
const ROUNDS_AT_ONCE = LONG ? 10 : ROUNDS
/** After ten wrong tokens within a minute, the admin API would answer this address with 429. */
const WRONG_TOKENS = 8
/** Each round makes about 20 canaries. */
const LEAST_CANARIES = LONG ? 1000 : 20

onEachStore(() => {
  test('canaries are found in no log line, error answer, metric or list of keys', async (t) => {
    const canaries: string[] = []
    const canary = (kind: string) => {
      const text = `CANARY${kind}${randomBytes(9).toString('hex')}`
      canaries.push(text)
      return text
    }
    const upstreamKey = canary('upstreamkey')
    const header = canary('upstreamheader')
    const parameter = canary('upstreamparameter')
    const bodyKey = canary('upstreambody')
    const upstreamSecrets = [upstreamKey, header, parameter, bodyKey]
    const answers = [
      () => reply.text(canary('answer')),
      () => reply.status(400, { body: { error: { message: `bad key ${upstreamKey}`, type: 'x' } } }),
      () => reply.status(500, { body: { error: { message: `Authorization: Bearer ${upstreamKey}` } } }),
      () => reply.status(400, { body: { detail: `x-gateway: Basic ${header}, /v1/chat?sig=${parameter}` } }),
      () => reply.status(502, { body: `bad config {"inner":"${header}"} in ${parameter}` }),
      () => reply.status(400, { body: { error: { message: `bad ${bodyKey}`, code: bodyKey } } }),
      () => reply.garbage(),
      () => reply.reset(),
    ]
    const model = await startModelServer(
      { script: (_request, index) => answers[index % answers.length]?.() },
      t,
    )
    const openai = {
      headers: { 'x-gateway': `Basic ${header}`, 'x-config': `{"inner":"${header}"}` },
      query: { sig: parameter },
      body: { extra: { api_key: bodyKey } },
    }
    const settings = { upstreams: { openai } }
    const parley = await startParley(t, { upstream: model.baseUrl, upstreamKey, settings })
    const key = await parley.key()
    canaries.push(key, ADMIN_TOKEN)

    const seen: Answer[] = []
    const send = async (
      path: string,
      body: unknown,
      apiKey: string,
      headers: Record<string, string> = {},
    ) => {
      seen.push(await parley.post(path, body, apiKey, headers))
    }
    const sendRound = async (round: number) => {
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
      if (round >= WRONG_TOKENS) return
      const wrong = { authorization: `Bearer ${canary('wrongtoken')}` }
      seen.push(await parley.get(`/admin/api/jobs?account=${canary('query')}`, undefined, wrong))
    }
    const rounds = Array.from({ length: ROUNDS }, (_, round) => round).values()
    const sendRounds = async () => {
      for (const round of rounds) await sendRound(round)
    }
    await Promise.all(Array.from({ length: ROUNDS_AT_ONCE }, sendRounds))
    const asAdmin = { authorization: `Bearer ${ADMIN_TOKEN}` }
    const admin = async (path: string) => {
      const answer = await parley.get(`/admin/api/${path}`, undefined, asAdmin)
      assert.equal(answer.status, 200, answer.text)
      return answer
    }
    const { jobs } = (await admin('jobs?limit=200')).body.data
    assert.ok(jobs.length > ROUNDS)
    const pages: Answer[] = []
    const contents: Answer[] = []
    for (const { job_id } of jobs.slice(0, 200)) {
      pages.push(await admin(`jobs/${job_id}`))
      contents.push(await admin(`jobs/${job_id}/content`))
    }
    for (const path of ['overview', 'jobs', 'accounts', 'keys', 'settings']) pages.push(await admin(path))
    const callbacks = await admin('callbacks')
    const made = await parley.post(
      '/admin/api/keys',
      { account: 'other', tier: 'user_go' },
      undefined,
      asAdmin,
    )
    const shown = await parley.post('/admin/api/accounts/other/secret', { rotate: true }, undefined, asAdmin)
    canaries.push(made.body.data.key, shown.body.data.secret)
    const errors = seen.filter(({ status }) => status >= 400)
    assert.ok(errors.length >= ROUNDS * 3)
    const metrics = await parley.get('/metrics')
    const places = {
      log: JSON.stringify(parley.log),
      errors: errors.map(({ text }) => text).join('\n'),
      metrics: metrics.text,
      keys: JSON.stringify(await parley.store.listKeys()),
      // The admin API shows contents only on request. A callback's payload and its receiver's answer appear on the callback's
      // page.
      admin: [...pages, callbacks]
        .map(({ text }) => text.replace(/"callback_payload":"[^}]*}"/g, ''))
        .join('\n'),
    }
    assert.ok(parley.log.length > ROUNDS * 7)
    for (const [place, text] of Object.entries(places)) {
      // A parser might log an excerpt, so not even the beginning of a canary may appear.
      const found = [...canaries, 'CANARY'].filter((one) => text.includes(one))
      assert.deepEqual(found, [], `in the ${place}`)
    }
    // Operators can read contents on request, but never credentials.
    const opens = [...upstreamSecrets, key, ADMIN_TOKEN, hashKey(key), hashKey(made.body.data.key)]
    const everything = [...pages, ...contents, callbacks].map(({ text }) => text).join('\n')
    assert.deepEqual(
      opens.filter((one) => everything.includes(one)),
      [],
    )
    assert.ok(contents.some(({ text }) => text.includes('CANARYprompt')))
    // The model server's own message is part of a failed job, but must not contain the secrets.
    for (const secret of upstreamSecrets) assert.ok(!seen.some(({ text }) => text.includes(secret)))
    // The secrets reached the server, so it could have echoed them.
    for (const request of model.requests) {
      assert.equal(request.headers['x-gateway'], `Basic ${header}`)
      assert.ok(request.path.endsWith(`?sig=${parameter}`) && request.text.includes(bodyKey))
    }
    assert.ok(canaries.length >= LEAST_CANARIES, `only ${canaries.length} canaries`)
    t.diagnostic(
      `${canaries.length} canaries, ${errors.length} error answers, ${parley.log.length} log lines`,
    )
  })
})
