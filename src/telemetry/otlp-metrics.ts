/** Converts Parley's own metrics (`/metrics`) to the form that the OpenTelemetry SDK exports, so that both agree. */
import { type Attributes, type HrTime, ValueType } from '@opentelemetry/api'
import { millisToHrTime } from '@opentelemetry/core'
import { emptyResource } from '@opentelemetry/resources'
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  type MetricData,
  type MetricProducer,
} from '@opentelemetry/sdk-metrics'
import type { MetricValues } from './metrics.ts'

export class OtlpMetrics implements MetricProducer {
  readonly #startTime = millisToHrTime(Date.now())
  #values: () => Promise<readonly MetricValues[]> = async () => []

  /** Collects these metrics from then on. */
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

/** In the Prometheus format, each cumulative bucket is a value with a label `le`. */
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
