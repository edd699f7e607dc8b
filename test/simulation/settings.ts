/** Configures the nodes of a simulated plan. */
import type { Configuration } from '../../src/config/load.ts'
import { DEFAULTS, UPSTREAM_DEFAULTS } from '../../src/config/settings.ts'
import { CALL_TIMEOUT_MS, MAX_OUTPUT_TOKENS } from './model-servers.ts'
import { CALLBACK_PAUSES_S, LEASE_MS, MODELS, type Plan, UPSTREAMS } from './plan.ts'
import { POST_TIMEOUT_MS } from './receivers.ts'

/** No tier rejects a job of a history because of its tokens, so no tokens are counted. */
const ANY_JOB = { models: 'all' as const, max_input_tokens: 1_000_000_000 }
/** The price is that of one million tokens, so a call costs as many millionths as it has tokens. */
const PRICE = { input: 1, output: 1 }
export const RUN_TIMEOUT_MS = 60_000

export function configurationOf(plan: Plan): Pick<Configuration, 'settings' | 'concurrency' | 'simulated'> {
  const upstream = {
    ...UPSTREAM_DEFAULTS,
    max_concurrency: plan.upstreamConcurrency,
    call_timeout_seconds: CALL_TIMEOUT_MS / 1000,
  }
  const models = Object.entries(MODELS).map(([name, upstreams]) => {
    const targets = upstreams.map((one) => ({ upstream: one, model: 'm' }))
    return [name, { targets, price: PRICE, max_output_tokens: MAX_OUTPUT_TOKENS }] as const
  })
  const settings = {
    ...DEFAULTS,
    upstreams: Object.fromEntries(UPSTREAMS.map((name) => [name, upstream])),
    models: Object.fromEntries(models),
    tiers: {
      user_free: { ...DEFAULTS.tiers.user_free, ...ANY_JOB, max_open_jobs: 40 },
      user_go: { ...DEFAULTS.tiers.user_go, ...ANY_JOB },
      user_pro: { ...DEFAULTS.tiers.user_pro, ...ANY_JOB },
      user_max: { ...DEFAULTS.tiers.user_max, ...ANY_JOB },
    },
    jobs: {
      ...DEFAULTS.jobs,
      concurrency: plan.concurrency,
      retention_seconds: plan.retentionS,
      run_timeout_seconds: RUN_TIMEOUT_MS / 1000,
      patience_seconds: plan.patienceMs / 1000,
      max_attempts: plan.maxAttempts,
      lease_seconds: LEASE_MS / 1000,
      drain_seconds: plan.drainMs / 1000,
    },
    sync: { max_waiters: plan.maxPendingResponses },
    limits: { ...DEFAULTS.limits, memory_bytes: plan.memoryBytes },
    callbacks: {
      ...DEFAULTS.callbacks,
      retry_seconds: [...CALLBACK_PAUSES_S],
      timeout_seconds: POST_TIMEOUT_MS / 1000,
      concurrency: plan.callbackSlots,
      retry_concurrency: plan.callbackSlots,
      concurrency_per_origin: Math.max(1, plan.callbackSlots - 1),
    },
  }
  return { settings, concurrency: new Map(UPSTREAMS.map((name) => [name, 'explicit'])), simulated: false }
}
