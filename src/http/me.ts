/** GET /api/v1/me: the caller's tier, limits and usage, and what is left of the limits. */
import type { FastifyInstance } from 'fastify'
import { costSum, sumOf, usageSums, usageView } from '../admin/account-view.ts'
import type { Clock } from '../clock.ts'
import { amountOf } from '../job/amount.ts'
import { CACHE_TTL_S, TIMEOUT_S } from '../job/field-rules.ts'
import { monthEndsMs, monthOf } from '../job/month.ts'
import type { MinuteCounter } from '../sharing/minute-counter.ts'
import type { UsageStore } from '../store/usage-store.ts'
import { type Static, Type } from '../typed-schema.ts'
import { sendData } from './envelope.ts'
import { errors, success } from './openapi/schemas.ts'

export interface MeRoute {
  readonly models: readonly string[]
  readonly readCounter: MinuteCounter
  readonly store: Pick<UsageStore, 'listUsage' | 'quotaUse'>
  readonly clock: Pick<Clock, 'nowMs'>
  readonly retentionSeconds: number
  readonly idempotencySeconds: number
  readonly bodyBytes: number
  readonly batchBodyBytes: number
  /** `currency` is null if no currency is configured. */
  readonly currency: string | null
}

const integer = Type.Integer()
const range = Type.Object({ least: integer, most: integer, default: integer })

const monthlyCap = (unit: string) =>
  Type.Union([integer, Type.Null()], { description: `${unit} per month; null for no cap.` })

const quota = (description: string) =>
  Type.Union([integer, Type.Null()], { description: `${description}; null for no limit.` })

const me = Type.Object({
  account: Type.String(),
  key_id: Type.String(),
  tier: Type.String(),
  models: Type.Array(Type.String(), { description: 'The models that the tier may use.' }),
  limits: Type.Object({
    max_batch_jobs: integer,
    reads_per_minute: integer,
    creates_per_minute: quota('Jobs that may be created per minute'),
    max_input_tokens: integer,
    max_output_tokens: quota('Tokens of one answer'),
    priorities: Type.Array(Type.String(), { description: 'The values of `priority` that jobs may have.' }),
    max_monthly_jobs: monthlyCap('Jobs, including open ones,'),
    max_monthly_tokens: monthlyCap('Input and output tokens'),
    max_monthly_cost: Type.Optional(
      Type.Union([Type.Number(), Type.Null()], {
        description: 'In the currency; null for no cap, and absent without a currency.',
      }),
    ),
    max_open_jobs: quota('Jobs that may be queued or running at the same time'),
    max_stored_bytes: quota('Bytes that the account may store'),
    body_bytes: integer,
    batch_body_bytes: integer,
    message_cache_ttl: range,
    timeout: range,
  }),
  reads: Type.Object({
    remaining: Type.Integer({
      description: 'Remaining reads in the current minute, for this key on this node.',
    }),
    resets_in_seconds: integer,
  }),
  retention_seconds: Type.Number({ description: 'How long a finished job can be read.' }),
  idempotency_seconds: Type.Number({ description: 'How long an `Idempotency-Key` is remembered.' }),
  open_jobs: Type.Integer({ description: 'Jobs that are currently queued or running.' }),
  stored_bytes: Type.Integer({
    description: 'Bytes of your stored conversations, schemas, callbacks, answers and files.',
  }),
  suspended: Type.Boolean({
    description:
      'Whether the account is suspended. A suspended account can read its jobs, but cannot create new ones.',
  }),
  currency: Type.Optional(
    Type.String({ description: 'The currency of costs; absent if none is configured.' }),
  ),
  reserved_cost: Type.Optional(
    Type.Integer({
      description: 'The highest possible cost of your unfinished jobs, in millionths of the currency.',
    }),
  ),
  usage: Type.Object({
    month: Type.String({ description: 'The current month, in UTC.' }),
    resets_at: Type.Integer({ description: 'Unix time of the end of the month.' }),
    ...usageSums,
    cost: costSum,
    models: Type.Array(Type.Object({ model: Type.String(), ...usageSums, cost: costSum })),
  }),
})

/** At most this many rows of usage are read, one for each model. Servers have only a few public models. */
const MOST_MODELS = 1000

export function meRoute(app: FastifyInstance, options: MeRoute): void {
  app.get(
    '/api/v1/me',
    {
      schema: {
        operationId: 'getAccount',
        summary: 'Show your tier, models, limits and remaining usage',
        description: 'Does not count as a read. The usage is that of the current month (UTC).',
        tags: ['Account'],
        security: [{ apiKey: [] }],
        response: {
          200: success('The account, limits and usage of the key.', me),
          ...errors(401, 429, 500, 503),
        },
      },
    },
    async (request, reply) => {
      const { account, keyId, tier, suspended, caps, quotas } = request.caller
      const nowMs = options.clock.nowMs()
      const month = monthOf(nowMs)
      const [used, { openJobs, storedBytes, reserved = 0 }] = await Promise.all([
        options.store.listUsage({ account, month, limit: MOST_MODELS }),
        options.store.quotaUse(account),
      ])
      const costCap = caps?.cost ?? null
      const { count: reads, leftMs } = options.readCounter.peek(keyId)
      const data: Static<typeof me> = {
        account,
        key_id: keyId,
        tier: tier.name,
        models: options.models.filter((model) => tier.models.has(model)),
        limits: {
          max_batch_jobs: tier.maxBatchJobs,
          reads_per_minute: tier.readsPerMinute,
          creates_per_minute: tier.createsPerMinute,
          max_input_tokens: tier.maxInputTokens,
          max_output_tokens: tier.maxOutputTokens,
          priorities: [...tier.priorities],
          max_monthly_jobs: caps?.jobs?.limit ?? null,
          max_monthly_tokens: caps?.tokens?.limit ?? null,
          ...(options.currency !== null && { max_monthly_cost: costCap && amountOf(costCap.limit) }),
          max_open_jobs: quotas?.openJobs?.limit ?? null,
          max_stored_bytes: quotas?.storedBytes?.limit ?? null,
          body_bytes: options.bodyBytes,
          batch_body_bytes: options.batchBodyBytes,
          message_cache_ttl: CACHE_TTL_S,
          timeout: TIMEOUT_S,
        },
        reads: {
          remaining: Math.max(0, tier.readsPerMinute - reads),
          resets_in_seconds: Math.ceil(leftMs / 1000),
        },
        retention_seconds: options.retentionSeconds,
        idempotency_seconds: options.idempotencySeconds,
        open_jobs: openJobs,
        stored_bytes: storedBytes,
        suspended,
        ...(options.currency !== null && { currency: options.currency, reserved_cost: reserved }),
        usage: {
          month,
          resets_at: monthEndsMs(nowMs) / 1000,
          ...sumOf(used.map(usageView)),
          models: used.map((record) => ({ model: record.model, ...usageView(record) })),
        },
      }
      return sendData(reply, 200, 'The account, its limits and its usage.', JSON.stringify(data))
    },
  )
}
