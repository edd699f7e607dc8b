/**
 * Tests telemetry by OTLP: a job is one trace even across a restart, metrics arrive, and a collector that does not respond does
 * no harm.
 */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type ModelServerForTests, reply, startModelServer } from '../model-server.ts'
import { job } from '../parley.ts'
import { freshDatabase } from '../postgres/database.ts'
import { type Receiver, startReceiver } from '../receiver.ts'
import { reported } from './mistakes.ts'
import { installation, type Server } from './server-process.ts'
import { startServer } from './started-server.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const CALLER = 'b7ad6b7169203331'
const AGAIN = job({ messages: [{ role: 'user', content: 'Again' }] })
const LOOPBACK = { callbacks: { allow_networks: ['127.0.0.0/8'] } }

const telemetryTo = ({ url }: Receiver, more: Record<string, string> = {}) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  ...more,
})

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

interface Span {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly attributes: readonly Attribute[]
}

function bodies({ requests }: Receiver, path: string) {
  return requests.filter((request) => request.path === path).map(({ body }) => JSON.parse(body))
}

function spansOf(collector: Receiver, service?: string): Span[] {
  const isFrom = ({ resource }: { resource: { attributes: readonly Attribute[] } }) =>
    service === undefined ||
    resource.attributes.some(({ key, value }) => key === 'service.name' && value.stringValue === service)
  return bodies(collector, '/v1/traces')
    .flatMap(({ resourceSpans }) => resourceSpans.filter(isFrom))
    .flatMap(({ scopeSpans }) => scopeSpans)
    .flatMap(({ spans }) => spans)
}

function metricsOf(collector: Receiver): Map<string, Record<string, object>> {
  const metrics = bodies(collector, '/v1/metrics')
    .flatMap(({ resourceMetrics }) => resourceMetrics)
    .flatMap(({ scopeMetrics }) => scopeMetrics)
    .flatMap(({ metrics }) => metrics)
  return new Map(metrics.map((metric) => [metric.name, metric]))
}

const attributeOf = ({ attributes }: Span, key: string) => attributes.find((one) => one.key === key)?.value

function create(server: Server, key: string, body: object, signal?: AbortSignal): Promise<Response> {
  const path = Array.isArray(body) ? '/api/v1/messages/batches' : '/api/v1/messages'
  const traceparent = `00-${TRACE}-${CALLER}-01`
  const headers = { 'content-type': 'application/json', 'x-api-key': key, traceparent }
  return fetch(server.url + path, {
    ...{ method: 'POST', headers, body: JSON.stringify(body) },
    ...(signal && { signal }),
  })
}

/** Requests for the list of models do not count. */
async function called(models: ModelServerForTests): Promise<void> {
  for (let received = 1; models.completions().length === 0; received++) await models.received(received)
}

test('a job is one trace across a restart', async (t) => {
  const collector = await startReceiver({}, t)
  const callbacks = await startReceiver({}, t)
  const settings = { ...LOOPBACK, jobs: { drain_seconds: 0 } }
  const env = telemetryTo(collector, { OTEL_SERVICE_NAME: 'messages' })
  const { models, place, server: first, key } = await startServer(t, { settings, start: { env } })
  models.script = ({ method }) => (method === 'POST' ? reply.stall() : undefined)
  const callback = { callback_url: `${callbacks.url}/hook`, callback_payload: {} }
  const messages = [{ role: 'user', content: 'A secret question' }]
  const created = await create(first, key, [job({ callback, messages, metadata: { of: 'a test' } })])
  assert.equal(created.status, 202, await created.text())
  await called(models)
  assert.deepEqual(await first.stop(), { code: 0, signal: null })

  models.script = ({ method }) => (method === 'POST' ? reply.text('A secret answer') : undefined)
  const second = await place.start({ env })
  const [delivered] = await callbacks.received(1)
  assert.deepEqual(await second.stop(), { code: 0, signal: null })

  const spans = spansOf(collector)
  const named = (name: string) => spans.filter((span) => span.name === name)
  assert.deepEqual(spans.map(({ name }) => name).toSorted(), [
    'POST /api/v1/messages/batches',
    'chat gpt-5-mini',
    'chat gpt-5-mini',
    'parley.accept',
    'parley.callback',
    'parley.queue',
    'parley.queue',
    'parley.run',
    'parley.run',
    'parley.settle',
  ])
  assert.deepEqual([...new Set(spans.map(({ traceId }) => traceId))], [TRACE])
  const [root] = named('POST /api/v1/messages/batches')
  assert.equal(root?.parentSpanId, CALLER)
  for (const name of ['parley.accept', 'parley.queue', 'parley.run', 'parley.settle', 'parley.callback']) {
    for (const span of named(name)) assert.equal(span.parentSpanId, root?.spanId, name)
  }
  const sent = models.completions().map(({ headers }) => headers.traceparent)
  const chats = named('chat gpt-5-mini')
  assert.deepEqual(sent.toSorted(), chats.map(({ spanId }) => `00-${TRACE}-${spanId}-01`).toSorted())
  const [callbackSpan] = named('parley.callback')
  assert.equal(delivered?.headers.traceparent, `00-${TRACE}-${callbackSpan?.spanId}-01`)

  const answered = chats.find((span) => attributeOf(span, 'gen_ai.response.finish_reasons'))
  assert.ok(answered)
  assert.deepEqual(attributeOf(answered, 'gen_ai.provider.name'), { stringValue: 'openai' })
  assert.deepEqual(attributeOf(answered, 'gen_ai.request.model'), { stringValue: 'gpt-5-mini' })
  assert.deepEqual(attributeOf(answered, 'gen_ai.response.finish_reasons'), {
    arrayValue: { values: [{ stringValue: 'stop' }] },
  })
  const metrics = metricsOf(collector)
  for (const name of ['gen_ai.client.operation.duration', 'gen_ai.client.token.usage', 'parley_jobs_total']) {
    assert.ok(metrics.has(name), `${name} of ${[...metrics.keys()]}`)
  }
  assert.match(JSON.stringify(metrics.get('parley_jobs_total')), /"asDouble":1/)
  const all = collector.requests.map(({ body }) => body).join()
  assert.match(all, /"messages"/)
  assert.doesNotMatch(all, /secret/)
})

test('a job that one node accepts and another runs is one trace', async (t) => {
  const collector = await startReceiver({}, t)
  const callbacks = await startReceiver({}, t)
  const models = await startModelServer({}, t)
  const settings = { ...LOOPBACK, jobs: { drain_seconds: 0 } }
  const databaseUrl = await freshDatabase(t)
  const place = await installation(t, { upstream: models.baseUrl, settings, databaseUrl })
  const node = (name: string) => telemetryTo(collector, { OTEL_SERVICE_NAME: name })
  const accepting = await place.start({ args: ['--role', 'api'], env: node('accepts') })
  const key = await accepting.firstKey()
  const working = await place.start({ args: ['--role', 'worker'], env: node('works') })
  const callback = { callback_url: `${callbacks.url}/hook`, callback_payload: {} }
  const created = await create(accepting, key, [
    job({ callback, messages: [{ role: 'user', content: 'Hello' }] }),
  ])
  assert.equal(created.status, 202, await created.text())
  await callbacks.received(1)
  for (const server of [accepting, working]) assert.deepEqual(await server.stop(), { code: 0, signal: null })

  const namesFrom = (service: string) => spansOf(collector, service).map(({ name }) => name)
  assert.deepEqual(namesFrom('accepts').toSorted(), ['POST /api/v1/messages/batches', 'parley.accept'])
  assert.deepEqual(namesFrom('works').toSorted(), [
    'chat gpt-5-mini',
    'parley.callback',
    'parley.queue',
    'parley.run',
    'parley.settle',
  ])
  const traces = spansOf(collector).map(({ traceId }) => traceId)
  assert.deepEqual([...new Set(traces)], [TRACE])
})

test('metrics are sent more often than their timeout, and the span of a request whose client hangs up has the status 499', async (t) => {
  const collector = await startReceiver({}, t)
  const often = { OTEL_METRIC_EXPORT_INTERVAL: '500', OTEL_METRIC_EXPORT_TIMEOUT: '30000' }
  const { models, server, key } = await startServer(t, {
    models: { script: () => reply.stall() },
    settings: { jobs: { drain_seconds: 0 } },
    start: { env: telemetryTo(collector, often) },
  })
  await collector.received(2)
  const gone = server.program.logged(/"status":499/)
  const hangUp = new AbortController()
  const waiting = create(server, key, job(), hangUp.signal)
  await called(models)
  hangUp.abort()
  await assert.rejects(waiting)
  await gone
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  const roots = spansOf(collector).filter(({ name }) => name === 'POST /api/v1/messages')
  assert.deepEqual(
    roots.map((span) => attributeOf(span, 'http.response.status_code')),
    [{ intValue: 499 }],
  )
})

async function serves(
  t: TestContext,
  env: Readonly<Record<string, string>>,
  between: (server: Server) => Promise<unknown> = async () => {},
): Promise<Server> {
  const server = await (await installation(t)).start({ env })
  const key = await server.firstKey()
  assert.equal((await create(server, key, job())).status, 200)
  await between(server)
  assert.equal((await create(server, key, AGAIN)).status, 200)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  return server
}

test('by default, telemetry is sent as protobuf', async (t) => {
  const collector = await startReceiver({}, t)
  // Compose sets a variable without a value to an empty text, which must count as absent.
  await serves(t, telemetryTo(collector, { OTEL_EXPORTER_OTLP_PROTOCOL: '' }))
  const sent = new Set(collector.requests.map(({ path, headers }) => `${path} ${headers['content-type']}`))
  const paths = ['/v1/metrics', '/v1/traces']
  assert.deepEqual(
    [...sent].toSorted(),
    paths.map((path) => `${path} application/x-protobuf`),
  )
})

test('a collector that does not answer delays neither jobs nor the shutdown, and is logged once', async (t) => {
  const collector = await startReceiver({ reply: () => ({ kind: 'stall' }) }, t)
  const waits = { OTEL_EXPORTER_OTLP_TIMEOUT: '600000', OTEL_BSP_EXPORT_TIMEOUT: '600000' }
  const env = telemetryTo(collector, { ...waits, OTEL_BSP_SCHEDULE_DELAY: '1' })
  await serves(t, env, () => collector.received(1))
})

test('a collector that is down is logged once, and jobs complete', async (t) => {
  const collector = await startReceiver({}, t)
  await collector.close()
  const often = { OTEL_METRIC_EXPORT_INTERVAL: '500', OTEL_METRIC_EXPORT_TIMEOUT: '400' }
  const env = { ...often, OTEL_BSP_SCHEDULE_DELAY: '1', OTEL_EXPORTER_OTLP_TIMEOUT: '400' }
  const warning = 'could not send telemetry'
  const { program } = await serves(t, telemetryTo(collector, env), (server) =>
    server.program.logged(new RegExp(warning)),
  )
  assert.equal(program.stderr.split(warning).length, 2)
})

test('a protocol or a sampler that Parley does not have is reported, and the server does not start', async (t) => {
  const place = await installation(t)
  for (const [name, value] of [
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
    ['OTEL_TRACES_SAMPLER', 'jaeger_remote'],
    ['OTEL_TRACES_SAMPLER_ARG', '5%'],
  ] as const) {
    const sampler = { OTEL_TRACES_SAMPLER: 'traceidratio' }
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', ...sampler, [name]: value }
    reported(await place.parley(['serve'], { env }), new RegExp(`^${name} is ${value}`))
  }
})

test('OTEL_SDK_DISABLED is read regardless of case', async (t) => {
  const collector = await startReceiver({}, t)
  await serves(t, telemetryTo(collector, { OTEL_SDK_DISABLED: 'True' }))
  assert.deepEqual(collector.requests, [])
})
