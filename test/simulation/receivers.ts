/** Simulates callback receivers behind the interface of the poster: one for each account, with its current fault. */
import { createHmac } from 'node:crypto'
import type { Clock } from '../../src/clock.ts'
import type { Poster, PostRequest, PostResult } from '../../src/net/post.ts'
import { type KnownJob, type Ledger, TOO_EARLY } from './ledger.ts'
import { CALLBACK_PAUSES_S, type ReceiverFault } from './plan.ts'
import type { SimulatedThread, World } from './world.ts'

export const POST_TIMEOUT_MS = 15_000
export interface PosterOptions {
  readonly world: World
  readonly ledger: Ledger
  /** Maps accounts to faults. An account without a fault is absent. */
  readonly faults: ReadonlyMap<string, ReceiverFault>
  readonly thread: SimulatedThread
  readonly clock: Clock
}

export function simulatedPoster(options: PosterOptions): Poster {
  const { world, ledger, faults, thread, clock } = options
  const inProgress = new Set<(result: PostResult) => void>()
  const post = (request: PostRequest): Promise<PostResult> => {
    const startedMs = world.nowMs
    const known = ledger.jobs.get(String(request.headers['webhook-id']))
    if (known !== undefined) checkTime(options, known)
    return new Promise((resolve) => {
      const end = (result: PostResult) => {
        if (!inProgress.delete(end)) return
        cancel()
        if (result !== STOPPING)
          known?.callbackTries.push({
            process: thread.name,
            endedMs: world.nowMs,
            retryAfterMs: retryAfterOf(result),
          })
        resolve(result)
      }
      const cancel = clock.after(POST_TIMEOUT_MS, () =>
        end(failed('no response within 15 s', POST_TIMEOUT_MS)),
      )
      inProgress.add(end)
      world.after(world.random.next() * 20, `callback from ${thread.name}`, () => {
        const account = new URL(request.url).hostname.split('.')[0] ?? ''
        const fault = faults.get(account) ?? null
        if (fault === 'reset' && world.random.chance(0.5)) return reply(failed('reset', 1))
        const job = receive(ledger, account, request)
        if (fault === 'stall' || job === null) return
        if (fault === 'reset') return reply(failed('reset', 1))
        const status = statusOf(fault)
        job.callbackAnswers.push(status)
        if (fault === 'reply lost') return reply(failed('connection closed', 2))
        const retryAfterMs = fault === '503' ? 10_000 : null
        const slowMs = fault === 'slow' ? world.random.whole(1000, 14_000) : 0
        reply(
          { kind: 'answered', status, bodyStart: 'ok', retryAfterMs, ms: world.nowMs - startedMs },
          slowMs,
        )
      })
      const reply = (result: PostResult, ms = 0) =>
        void world.after(
          ms + world.random.next() * 20,
          `answer to a callback of ${thread.name}`,
          () => end(result),
          thread,
        )
    })
  }
  const close = async () => {
    for (const end of [...inProgress]) end(STOPPING)
  }
  return { post, close }
}

const STOPPING = failed('the server is stopping', 0)
/** Pauses are random. At least this part of the configured pause must pass before the next attempt. */
const LEAST_PART = 0.8

function retryAfterOf(result: PostResult): number {
  return result.kind === 'answered' ? (result.retryAfterMs ?? 0) : 0
}

/** An attempt must not come before the configured pause is over, unless the record of the previous attempt may be lost. */
function checkTime({ world, ledger }: PosterOptions, job: KnownJob): void {
  const [first] = job.callbackTries
  const last = job.callbackTries.at(-1)
  if (first === undefined || last === undefined || job.wasReplayed || ledger.clockJumpsMs > 0) return
  // If a jump of the database's clock ends a node's lease, the other nodes consider that node dead and take over its callbacks.
  if (ledger.storeClockJumped) return
  const mayBeLost = job.callbackTries.some(({ process }) => ledger.disturbed.has(process))
  if (mayBeLost || ledger.hadStoreFault(first.endedMs)) return
  const pauseMs = (CALLBACK_PAUSES_S[job.callbackTries.length] ?? 0) * 1000 * LEAST_PART
  const waitedMs = world.nowMs - last.endedMs
  if (waitedMs < Math.max(pauseMs, last.retryAfterMs) - 1)
    ledger.violate(TOO_EARLY, `the callback of ${job.id} is attempted again after ${waitedMs} ms`)
}

function failed(message: string, ms: number): PostResult {
  return { kind: 'failed', message, ms }
}

function statusOf(fault: ReceiverFault | null): number {
  const status = Number(fault)
  return fault !== null && Number.isInteger(status) ? status : 200
}

/** The callback must belong to this receiver's account, and must be signed with its secret. */
function receive(ledger: Ledger, account: string, { body, headers }: PostRequest): KnownJob | null {
  const id = String(headers['webhook-id'])
  const job = ledger.jobs.get(id)
  if (job === undefined || job.account !== account) {
    ledger.violate('accounts are isolated', `the receiver of ${account} got a callback for ${id}`)
    return null
  }
  const sent = JSON.parse(String(body)) as {
    job_id: string
    status: string
    callback_payload?: { tag: string }
  }
  if (sent.job_id !== id || sent.callback_payload?.tag !== job.plan.tag) {
    ledger.violate('callbacks match the request', `${id} got ${JSON.stringify(sent)}`)
  }
  if (sent.status !== 'completed' && sent.status !== 'failed') {
    ledger.violate('callbacks report a final state', `${id} is ${sent.status}`)
  }
  const signatures = String(headers['webhook-signature']).split(' ')
  const text = `${id}.${headers['webhook-timestamp']}.${body}`
  const isSigned = (ledger.secrets.get(account) ?? []).some((secret) =>
    signatures.includes(
      `v1,${createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64'))
        .update(text)
        .digest('base64')}`,
    ),
  )
  if (!isSigned) ledger.violate('every signature verifies', `that of ${id} does not`)
  job.callbacksReceived += 1
  return job
}
