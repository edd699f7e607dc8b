/**
 * Exports traces and metrics by OTLP over HTTP. The module is loaded only if `OTEL_EXPORTER_OTLP_ENDPOINT` is set. The
 * exporters read their options from OpenTelemetry's standard variables.
 *
 * A slow or unavailable collector delays nothing: the number of waiting spans is limited, further spans are dropped, and the
 * log gets at most one warning per minute.
 */
import {
  type Attributes,
  context,
  DiagLogLevel,
  diag,
  type HrTime,
  metrics,
  trace,
  ValueType,
} from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { millisToHrTime, setGlobalErrorHandler } from '@opentelemetry/core'
import {
  defaultResource,
  detectResources,
  emptyResource,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources'
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  MeterProvider,
  type MetricData,
  type MetricProducer,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { VERSION } from '../version.ts'
import type { Log } from './log.ts'
import type { Metrics, MetricValues } from './metrics.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface Otlp {
  watch(metrics: Pick<Metrics, 'values'>): void
  /** Exports what is left. Resolves with false if that takes longer than a second. Never rejects. */
  stop(): Promise<boolean>
}

/** A shutdown may exceed `jobs.drain_seconds` by three seconds, and the last responses need two of them. */
const FLUSH_MS = 1000
const WARN_EVERY_MS = 60_000
const PROTOCOLS: ReadonlySet<string> = new Set(['http/protobuf', 'http/json'])

/** Registers the OpenTelemetry SDK for this process. Throws an error for the operator if a variable has an unknown value. */
export async function startOtlp(env: Environment, log: Pick<Log, 'warn'>): Promise<Otlp> {
  const warn = warner(log)
  const problem = (message: unknown) => warn(message instanceof Error ? message.message : String(message))
  setGlobalErrorHandler(problem)
  const ignore = () => {}
  const logger = { error: problem, warn: problem, info: ignore, debug: ignore, verbose: ignore }
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
  const named = env.OTEL_SERVICE_NAME ?? ''
  const about = { 'service.name': 'parley', 'service.version': VERSION }
  const resource = defaultResource()
    .merge(resourceFromAttributes(about))
    .merge(detectResources({ detectors: [envDetector] }))
    .merge(resourceFromAttributes(named === '' ? {} : { 'service.name': named }))
  let isStopped = false
  const ownMetrics = new OtlpMetrics()
  const providers: { shutdown(): Promise<void> }[] = []
  const isExported = (what: 'TRACES' | 'METRICS') => env[`OTEL_${what}_EXPORTER`] !== 'none'

  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  const spanProcessors = isExported('TRACES')
    ? [
        new BatchSpanProcessor({
          exporter: await traceExporter(env),
          ...numbers(env, {
            maxQueueSize: 'OTEL_BSP_MAX_QUEUE_SIZE',
            maxExportBatchSize: 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE',
            scheduledDelayMillis: 'OTEL_BSP_SCHEDULE_DELAY',
            exportTimeoutMillis: 'OTEL_BSP_EXPORT_TIMEOUT',
          }),
        }),
      ]
    : []
  const sampler = spanProcessors.length === 0 ? new AlwaysOffSampler() : samplerOf(env)
  const tracers = new TracerProvider({ resource, spanProcessors, sampler })
  trace.setGlobalTracerProvider(tracers)
  providers.push(tracers)
  if (isExported('METRICS')) {
    const times = numbers(env, {
      exportIntervalMillis: 'OTEL_METRIC_EXPORT_INTERVAL',
      exportTimeoutMillis: 'OTEL_METRIC_EXPORT_TIMEOUT',
    })
    const { exportIntervalMillis: everyMs, exportTimeoutMillis: timeoutMs } = times
    // The library throws if the configured timeout is longer than the interval, so such a timeout is shortened.
    const isTooLong = everyMs !== undefined && timeoutMs !== undefined && timeoutMs > everyMs
    const reader = new PeriodicExportingMetricReader({
      exporter: await metricExporter(env),
      metricProducers: [ownMetrics],
      ...times,
      ...(isTooLong && { exportTimeoutMillis: everyMs }),
    })
    const meters = new MeterProvider({ resource, readers: [reader] })
    metrics.setGlobalMeterProvider(meters)
    providers.push(meters)
  }
  return {
    watch: (service) => ownMetrics.watch(() => service.values(isStopped)),
    stop: async () => {
      isStopped = true
      const flushed = Promise.all(providers.map((provider) => provider.shutdown().catch(problem)))
      const { promise: late, resolve } = Promise.withResolvers<false>()
      const timer = setTimeout(resolve, FLUSH_MS, false)
      const isFlushed = await Promise.race([flushed.then(() => true), late])
      clearTimeout(timer)
      return isFlushed
    },
  }
}

function isJson({ OTEL_EXPORTER_OTLP_PROTOCOL }: Environment): boolean {
  const protocol = OTEL_EXPORTER_OTLP_PROTOCOL || 'http/protobuf'
  if (!PROTOCOLS.has(protocol)) {
    throw new Error(
      `OTEL_EXPORTER_OTLP_PROTOCOL is ${protocol}, which Parley cannot send. Set it to http/protobuf or http/json.`,
    )
  }
  return protocol === 'http/json'
}

async function traceExporter(env: Environment) {
  const { OTLPTraceExporter } = isJson(env)
    ? await import('@opentelemetry/exporter-trace-otlp-http')
    : await import('@opentelemetry/exporter-trace-otlp-proto')
  return new OTLPTraceExporter()
}

async function metricExporter(env: Environment) {
  const { OTLPMetricExporter } = isJson(env)
    ? await import('@opentelemetry/exporter-metrics-otlp-http')
    : await import('@opentelemetry/exporter-metrics-otlp-proto')
  return new OTLPMetricExporter()
}

const ROOTS: Readonly<Record<string, (ratio: number) => Sampler>> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (ratio) => new TraceIdRatioBasedSampler(ratio),
}

function samplerOf({ OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG }: Environment): Sampler {
  const name = OTEL_TRACES_SAMPLER || 'parentbased_always_on'
  const ratio = Number(OTEL_TRACES_SAMPLER_ARG || 1)
  // With this value, the library would silently trace nothing.
  if (Number.isNaN(ratio)) {
    throw new Error(`OTEL_TRACES_SAMPLER_ARG is ${OTEL_TRACES_SAMPLER_ARG}. Set it to a number from 0 to 1.`)
  }
  const root = ROOTS[name.replace(/^parentbased_/, '')]?.(ratio)
  if (root === undefined) {
    throw new Error(
      `OTEL_TRACES_SAMPLER is ${name}. Set it to always_on, always_off or traceidratio, or one of them after parentbased_.`,
    )
  }
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root
}

/** Longer times are shortened to this. Otherwise, a timer would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Ignores variables that do not contain a positive number. */
function numbers<Name extends string>(env: Environment, names: Readonly<Record<Name, string>>) {
  const given = Object.entries<string>(names).map(
    ([name, variable]) => [name, Math.min(Number(env[variable]), MAX_TIMER_MS)] as const,
  )
  return Object.fromEntries(given.filter(([, value]) => value > 0)) as Partial<Record<Name, number>>
}

/** Limits the number of warnings, because every export fails while the collector is unavailable. */
function warner(log: Pick<Log, 'warn'>): (message: string) => void {
  let nextMs = Number.NEGATIVE_INFINITY
  let suppressed = 0
  return (message) => {
    if (performance.now() < nextMs) {
      suppressed++
      return
    }
    nextMs = performance.now() + WARN_EVERY_MS
    const why = message.slice(0, 500)
    log.warn(
      { why, ...(suppressed > 0 && { suppressed }) },
      'could not send telemetry (OTEL_EXPORTER_OTLP_ENDPOINT)',
    )
    suppressed = 0
  }
}

class OtlpMetrics implements MetricProducer {
  readonly #startTime = millisToHrTime(Date.now())
  #values: () => Promise<readonly MetricValues[]> = async () => []

  watch(values: () => Promise<readonly MetricValues[]>): void {
    this.#values = values
  }

  async collect(): Promise<Awaited<ReturnType<MetricProducer['collect']>>> {
    const times = { startTime: this.#startTime, endTime: millisToHrTime(Date.now()) }
    const metrics = (await this.#values()).flatMap((metric) => dataOf(metric, times) ?? [])
    const scopeMetrics = [{ scope: { name: 'parley' }, metrics }]
    return { resourceMetrics: { resource: emptyResource(), scopeMetrics }, errors: [] }
  }
}

interface Times {
  readonly startTime: HrTime
  readonly endTime: HrTime
}

function dataOf({ name, help, type, values }: MetricValues, times: Times): MetricData | null {
  const descriptor = { name, description: help, unit: '', valueType: ValueType.DOUBLE }
  const common = { descriptor, aggregationTemporality: AggregationTemporality.CUMULATIVE }
  const numbers = () =>
    values.map(({ labels, value }) => ({ ...times, attributes: attributesOf(labels), value }))
  if (type === 'gauge') return { ...common, dataPointType: DataPointType.GAUGE, dataPoints: numbers() }
  if (type === 'counter') {
    return { ...common, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints: numbers() }
  }
  if (type !== 'histogram') return null
  return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints: histograms(values, times) }
}

/** In the Prometheus format, each bucket is a value with the label `le` and also counts the smaller values. */
function histograms(values: MetricValues['values'], times: Times): DataPoint<Histogram>[] {
  const points = new Map<
    string,
    { readonly attributes: Attributes; buckets: [number, number][]; sum: number }
  >()
  for (const {
    labels: { le, ...labels },
    value,
    metricName = '',
  } of values) {
    const key = JSON.stringify(labels)
    const point = points.get(key) ?? { attributes: attributesOf(labels), buckets: [], sum: 0 }
    points.set(key, point)
    if (le !== undefined) point.buckets.push([Number(String(le).replace('+Inf', 'Infinity')), value])
    else if (metricName.endsWith('_sum')) point.sum = value
  }
  return [...points.values()].map(({ attributes, buckets, sum }) => {
    const sorted = buckets.toSorted(([a], [b]) => a - b)
    const counts = sorted.map(([, below], index) => below - (sorted[index - 1]?.[1] ?? 0))
    const boundaries = sorted.map(([bound]) => bound).filter(Number.isFinite)
    const count = sorted.at(-1)?.[1] ?? 0
    return { ...times, attributes, value: { buckets: { boundaries, counts }, sum, count } }
  })
}

function attributesOf(labels: MetricValues['values'][number]['labels']): Attributes {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]))
}
