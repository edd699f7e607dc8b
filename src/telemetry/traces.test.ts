import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import {
  type Attributes,
  type Context,
  type Span,
  type SpanOptions,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import fastify from 'fastify'
import { FakeClock } from '../../test/fake-clock.ts'
import { job, startParley } from '../../test/parley.ts'
import { isTracing, traceCreates } from './traces.ts'

interface Recorded {
  readonly name: string
  readonly attributes: Attributes
  ended: boolean
}

function record(): Recorded[] {
  const spans: Recorded[] = []
  const startSpan = (name: string): Span => {
    const recorded: Recorded = { name, attributes: {}, ended: false }
    spans.push(recorded)
    const span: Span = {
      ...trace.wrapSpanContext({ traceId: '0'.repeat(32), spanId: '0'.repeat(16), traceFlags: 0 }),
      setAttribute: (key, value) => {
        recorded.attributes[key] = value
        return span
      },
      setAttributes: (attributes) => {
        Object.assign(recorded.attributes, attributes)
        return span
      },
      setStatus: () => span,
      end: () => {
        recorded.ended = true
      },
    }
    return span
  }
  const startActiveSpan = (
    name: string,
    _options: SpanOptions,
    _parent: Context,
    work: (span: Span) => unknown,
  ) => work(startSpan(name))
  const tracer = { startSpan, startActiveSpan } as Tracer
  trace.setGlobalTracerProvider({ getTracer: () => tracer })
  return spans
}

test('without an SDK nothing is traced; with one, the life of a job is traced with the GenAI names', async (t) => {
  assert.equal(isTracing(), false)
  const spans = record()
  t.after(() => trace.disable())
  assert.equal(isTracing(), true)

  const clock = new FakeClock()
  const parley = await startParley(t, { clock })
  const answer = await parley.post('/api/v1/messages', job(), await parley.key())
  assert.equal(answer.status, 200)
  assert.deepEqual(spans.map(({ name }) => name).sort(), [
    'POST /api/v1/messages',
    'chat gpt-5-mini',
    'parley.accept',
    'parley.queue',
    'parley.run',
    'parley.settle',
  ])
  assert.ok(spans.every(({ ended }) => ended))
  const attributes = Object.assign({}, ...spans.map((span) => span.attributes))
  const { job_id: jobId } = answer.body.data
  assert.equal(attributes['gen_ai.operation.name'], 'chat')
  assert.equal(attributes['gen_ai.request.model'], 'gpt-5-mini')
  assert.ok(attributes['gen_ai.usage.input_tokens'] > 0)
  assert.equal(attributes['parley.job.id'], jobId)
  assert.deepEqual(attributes['parley.job.ids'], [jobId])
  assert.equal(attributes['parley.job.outcome'], 'completed')
  assert.ok(!JSON.stringify(spans).includes('Hello'), 'no text of the conversation')

  const leaving = new AbortController()
  const asked = parley.request('/api/v1/messages', {
    method: 'POST',
    headers: { 'x-api-key': await parley.key(), 'content-type': 'application/json' },
    body: JSON.stringify(job({ messages: [{ role: 'user', content: '[[delay 60s]]' }] })),
    signal: leaving.signal,
  })
  while (!(await parley.get('/metrics')).text.includes('\nparley_waiters 1\n')) t.signal.throwIfAborted()
  const open = spans.findLast(({ name }) => name === 'POST /api/v1/messages')
  assert.equal(open?.ended, false)
  leaving.abort()
  await assert.rejects(asked)
  while (!open?.ended) {
    t.signal.throwIfAborted()
    await parley.get('/healthz')
  }
  clock.advance(60_000)
  await longResponse(t, spans)
})

function* endless() {
  for (;;) yield Buffer.alloc(65_536)
}

/**
 * The client disconnects while a long response is sent. This is not a separate test, because the module's tracer stays with the
 * first SDK.
 */
async function longResponse(t: TestContext, spans: readonly Recorded[]) {
  const app = fastify()
  t.after(() => app.close())
  traceCreates(app)
  app.post('/v1/responses', (_request, reply) => reply.send(Readable.from(endless())))
  const url = await app.listen()
  const leaving = new AbortController()
  const sent = fetch(`${url}/v1/responses`, { method: 'POST', signal: leaving.signal })
  assert.equal((await sent).status, 200)
  const span = spans.findLast(({ name }) => name === 'POST /v1/responses')
  assert.equal(span?.ended, false)
  leaving.abort()
  while (!span?.ended) {
    t.signal.throwIfAborted()
    await fetch(url)
  }
  assert.equal(span.attributes['http.response.status_code'], 499)
}
