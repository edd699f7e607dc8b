/** Makes settings with prices, jobs that reserve a known cost, and answers that report a known number of tokens. */
import { type Reply, reply } from '../model-server.ts'
import { job } from '../parley.ts'
import { UNLIMITED_READS } from './stage.ts'

/** Accounts of the tier get a cap in money. Input is free, so that the reserved costs of jobs are round numbers. */
export const pricedSettings = (tier: 'user_go' | 'user_max', cap: number, over: object = {}) => ({
  currency: 'EUR',
  models: {
    priced: { price: { input: 0, output: 10 }, targets: [{ upstream: 'openai', model: 'one' }] },
    free: { targets: [{ upstream: 'openai', model: 'free' }] },
  },
  tiers: { ...UNLIMITED_READS, [tier]: { ...UNLIMITED_READS[tier], max_monthly_cost: cap, ...over } },
})

let seed = 0

/** Each job has its own seed, so that none is answered from the cache. */
export const newestSeed = () => seed

/** The job reserves 10 * `tokens` millionths of the currency. */
export const priced = (tokens: number, over: object = {}) =>
  job({ model: 'priced', options: { max_tokens: tokens, seed: ++seed }, ...over })

/** The answer reports this number of output tokens, and 30 of input. `usage` replaces the token counts. */
export function answering(tokens: number, { content = 'Amur', finish = 'stop', usage = {} } = {}): Reply {
  const message = { role: 'assistant', content }
  return reply.status(200, {
    body: {
      choices: [{ index: 0, message, finish_reason: finish }],
      usage: { prompt_tokens: 30, completion_tokens: tokens, total_tokens: 30 + tokens, ...usage },
    },
  })
}

export function billing() {
  let cost = 0
  const script = () => {
    const tokens = 1 + (cost % 7)
    cost += 10 * tokens
    return answering(tokens)
  }
  return { script, cost: () => cost }
}
