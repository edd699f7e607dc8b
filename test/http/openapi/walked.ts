/** Starts the Parley for the walk through all routes, with data for every path, and lists the routes that it serves. */
import { subscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { reply } from '../../model-server.ts'
import { job, type Lifetime, type Parley } from '../../parley.ts'
import { type Receiver, startReceiver } from '../../receiver.ts'
import { openaiOf } from '../../v1/official-client.ts'
import { submitBatch } from '../../v1/submit-batch.ts'
import { BATCHES, LOCAL_CALLBACKS } from '../caller.ts'
import { granted } from '../expect.ts'
import { type Stage, startStage, UNLIMITED_READS } from '../stage.ts'

export interface Walked extends Stage {
  readonly receiver: Receiver
  readonly served: readonly { readonly method: string; readonly url: string }[]
  readonly key: string
  readonly parameters: Record<string, string>
}

export async function startWalked(t: Lifetime): Promise<Walked> {
  const served: { method: string; url: string }[] = []
  subscribe('fastify.initialization', (message) => {
    const { fastify } = message as { fastify: FastifyInstance }
    fastify.addHook('onRoute', ({ method, url }) => {
      for (const one of [method].flat()) served.push({ method: one, url })
    })
  })
  const receiver = await startReceiver({}, t)
  const stage = await startStage(t, {
    settings: {
      trust_proxy: true,
      limits: { body_bytes: 10_000, batch_body_bytes: 10_000 },
      tiers: { ...UNLIMITED_READS, user_go: { reads_per_minute: 1 } },
      callbacks: { ...LOCAL_CALLBACKS.callbacks, retry_seconds: [0] },
    },
  })
  const { parley } = stage
  const key = await parley.key()
  const parameters = {
    jobId: await failedCallback(parley, key, receiver),
    keyId: await keyId(parley),
    tokenId: await tokenId(parley),
    batchId: await endedBatch(stage, key),
    name: 'to-be-moved',
  }
  return { ...stage, receiver, served, key, parameters }
}

async function failedCallback(parley: Parley, key: string, receiver: Receiver): Promise<string> {
  receiver.script({ kind: 'answer', status: 410, body: 'gone' })
  const callback = { callback_url: receiver.url, callback_headers: { a: 'b' }, callback_payload: { n: 1 } }
  const created = await parley.post(BATCHES, [job({ callback })], key)
  const [id] = granted(created, 202).job_ids
  for (;;) if ((await parley.store.findCallback(id))?.state === 'failed') return id
}

async function endedBatch({ parley, models, clock }: Stage, key: string): Promise<string> {
  const openai = openaiOf(parley, key)
  models.script = ({ text }) => (text.includes('bad') ? reply.status(400) : undefined)
  const { id } = await submitBatch(openai, ['good', 'bad'])
  while ((await openai.batches.retrieve(id)).status !== 'completed') clock.advance(1000)
  models.script = () => undefined
  return id
}

async function keyId(parley: Parley): Promise<string> {
  await parley.key('user_pro', 'to-be-moved')
  const found = await parley.store.searchKeys({ account: 'to-be-moved', limit: 1 })
  return found?.[0]?.id ?? ''
}

async function tokenId(parley: Parley): Promise<string> {
  const token = { id: 'tok_walked', name: 'walked', hash: 'walked', readOnly: true }
  await parley.store.createAdminToken({ ...token, createdAtMs: 0, expiresAtMs: null })
  return token.id
}
