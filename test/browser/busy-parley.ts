/**
 * Starts a Parley that looks busy for a quarter of an hour, for pictures: with many jobs, some failed jobs, and some failing
 * callbacks.
 */
import { type Clock, systemClock } from '../../src/clock.ts'
import { ADMIN_TOKEN, type Lifetime, type Parley, startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { openaiOf } from '../v1/official-client.ts'
import { submitBatch } from '../v1/submit-batch.ts'

/** The clock runs this many times faster than real time, so that a picture of 15 minutes takes less than a minute. */
const TIMES = 20
const ROUND_MS = 250

export interface BusyParley {
  readonly parley: Parley
  readonly job: string
  readonly batch: string
}

const TOPICS = [
  'Name a river.',
  'What is a tide?',
  'Translate “harbour” into Dutch.',
  'Summarise the minutes.',
]
/** Each number is the chance that a job gets this directive of the simulator or an earlier one. */
const FAILURES = [
  ['[[fail model_error]] ', 0.03],
  ['[[fail timeout]] ', 0.05],
  ['[[fail content_policy_violation]] ', 0.06],
] as const
const SCHEMA = {
  type: 'object',
  properties: { river: { type: 'string' }, km: { type: 'number' } },
  required: ['river', 'km'],
  additionalProperties: false,
}

/** @param ms how long the load runs in real time before this function resolves */
export async function startBusyParley(t: Lifetime, ms: number): Promise<BusyParley> {
  const receiver = await startReceiver({
    reply: ({ path }) =>
      path.startsWith('/broken')
        ? { kind: 'answer', status: 503, body: 'down for repair' }
        : { kind: 'answer' },
  })
  const parley = await startParley(t, {
    clock: fastClock(),
    settings: {
      jobs: { concurrency: 12 },
      callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0, 30] },
    },
  })
  t.after(() => receiver.close())
  const keys = [
    await parley.key('user_max', 'acme'),
    await parley.key('user_pro', 'harbour-tools'),
    await parley.key('user_free', 'trial-42'),
  ]
  const random = seeded(7)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T
  const element = () => {
    const chance = random()
    const [directive = ''] = FAILURES.find(([, below]) => chance < below) ?? []
    const delay = `[[delay ${(0.5 + random() ** 3 * 14).toFixed(1)}s]] `
    const withSchema = random() < 0.3
    return {
      model: pick(['gpt-auto', 'gpt-5-mini', 'gpt-5-mini']),
      response_format: withSchema ? { format: 'json', schema: SCHEMA } : { format: 'text' },
      messages: [
        { role: 'system', content: 'Answer briefly.' },
        { role: 'user', content: `${directive}${delay}${pick(TOPICS)} (${Math.floor(random() * 1e6)})` },
      ],
      ...(random() < 0.35 && {
        callback: { callback_url: `${receiver.url}/${random() < 0.04 ? 'broken' : 'jobs'}` },
      }),
    }
  }
  let round = 0
  const send = () => {
    round += 1
    // The load is a wave. Its occasional bursts exceed the slots, so that some jobs queue.
    const count = Math.round(1 + (1 + Math.sin(round / 14)) * 2 * random() + (round % 60 < 2 ? 24 : 0))
    for (let left = count; left > 0; left -= 2) {
      const jobs = Array.from({ length: Math.min(2, left) }, element)
      void parley.post('/api/v1/messages/batches', jobs, pick(keys))
    }
  }
  send()
  const timer = setInterval(send, ROUND_MS)
  t.after(() => clearInterval(timer))
  await new Promise((resolve) => setTimeout(resolve, ms))
  const jobBody = {
    model: 'gpt-5-mini',
    response_format: { format: 'json', schema: SCHEMA },
    messages: [
      { role: 'system', content: 'You know rivers.' },
      { role: 'developer', content: 'Lengths in kilometres.' },
      { role: 'user', content: '[[bad-json once]] Name a river and its length.' },
    ],
    callback: { callback_url: `${receiver.url}/broken`, callback_payload: { order: 7 } },
  }
  const { body } = await parley.post('/api/v1/messages/batches', [jobBody], keys[0])
  if (!body.success) throw new Error(JSON.stringify(body))
  const job = body.data.job_ids[0] as string
  await parley.ended(job, keys[0] as string)
  await stepIn(parley, job)
  await new Promise((resolve) => setTimeout(resolve, (40_000 / TIMES) * 1.3))
  const openai = openaiOf(parley, keys[0] as string)
  const words = (count: number) =>
    Array.from({ length: count }, (_, at) => `[[delay ${1 + (at % 40)}s]] ${pick(TOPICS)} (${at})`)
  await submitBatch(openai, words(120))
  await submitBatch(openai, words(2), ['no json'])
  const { id: batch } = await submitBatch(openai, words(900))
  await new Promise((resolve) => setTimeout(resolve, 3000))
  return { parley, job, batch }
}

async function stepIn(parley: Parley, job: string): Promise<void> {
  const steps = [
    ['alice', '/accounts/harbour-tools/caps', { max_monthly_jobs: 20_000, max_monthly_tokens: 'tier' }],
    ['alice', '/accounts/acme/tier', { tier: 'user_max' }],
    ['bo', `/jobs/${job}/cancel`, {}],
    ['bo', '/accounts/trial-42/cancel-jobs', { running: true }],
    ['bo', '/accounts/trial-42/suspend', {}],
  ] as const
  for (const [name, path, body] of steps) {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'x-parley-operator': name }
    await parley.post(`/admin/api${path}`, body, undefined, headers)
  }
}

function seeded(state: number): () => number {
  let seed = state
  return () => {
    seed = (seed * 1_664_525 + 1_013_904_223) % 4_294_967_296
    return seed / 4_294_967_296
  }
}

function fastClock(): Clock {
  const beganMs = systemClock.nowMs()
  const steadyBeganMs = systemClock.steadyMs()
  const passedMs = () => (systemClock.steadyMs() - steadyBeganMs) * TIMES
  return {
    nowMs: () => Math.round(beganMs + passedMs()),
    steadyMs: () => steadyBeganMs + passedMs(),
    after: (ms, callback) => systemClock.after(ms / TIMES, callback),
  }
}
