/** What the two creates share: from a body of the right shape to durable jobs, or a refusal. */
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { requestFingerprint } from '../job/fingerprint.ts'
import type { Job } from '../job/job.ts'
import { type Admission, type AdmissionRules, admit, type Element } from '../queue/admission.ts'
import type { EnqueueOptions, Enqueuer } from '../queue/enqueue.ts'
import type { Caps, MonthlyCaps } from '../queue/monthly-caps.ts'
import type { Accepted, Idempotency } from '../store/store.ts'
import type { Caller } from './authentication.ts'
import { accountSuspended, errorOf, invalid, keyUsedBefore } from './errors.ts'

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

export class JobCreator {
  readonly #enqueuer: Enqueuer
  readonly #rules: AdmissionRules
  readonly #clock: Clock
  readonly #rememberMs: number
  readonly #capWatch: MonthlyCaps

  constructor(
    enqueuer: Enqueuer,
    rules: AdmissionRules,
    capWatch: MonthlyCaps,
    clock: Clock,
    rememberMs: number,
  ) {
    this.#capWatch = capWatch
    this.#enqueuer = enqueuer
    this.#rules = rules
    this.#clock = clock
    this.#rememberMs = rememberMs
  }

  /** Throws the refusal of the element that breaks a rule first; to a suspended account, of all. */
  admit(elements: readonly Element[], caller: Caller, single: boolean): Promise<readonly Job[]> {
    if (caller.suspended) return Promise.reject(accountSuspended(caller.account))
    return admit(elements, caller, this.#rules, single).then(jobsOf)
  }

  /** Throws the refusal of an idempotency key that was used with another request, or of a cap that is reached. */
  accept(jobs: readonly Job[], { account, caps }: Caller, options: EnqueueOptions): Promise<NoConflict> {
    if (caps) return this.#acceptWithin(caps, account, jobs, options)
    return this.#enqueuer.enqueue(jobs, options).then(withoutConflict)
  }

  async #acceptWithin(caps: Caps, account: string, jobs: readonly Job[], options: EnqueueOptions) {
    const reserved = await this.#capWatch.reserve(account, caps, jobs.length)
    if (reserved.kind === 'monthly cap') throw errorOf(reserved)
    let stored = false
    try {
      const accepted = await this.#enqueuer.enqueue(jobs, options)
      stored = accepted.kind === 'accepted'
      return withoutConflict(accepted)
    } finally {
      reserved.end(stored)
    }
  }

  /** What the Idempotency-Key header asks for; null without one. */
  idempotencyOf(request: FastifyRequest, elements: readonly Element[]): Idempotency | null {
    const key = request.headers['idempotency-key']
    if (key === undefined) return null
    if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) {
      throw invalid('Idempotency-Key: must be 1 to 255 visible ASCII characters')
    }
    const route = request.routeOptions.url ?? ''
    const untilMs = this.#clock.nowMs() + this.#rememberMs
    return { key, fingerprint: requestFingerprint(route, elements), untilMs }
  }
}

type NoConflict = Exclude<Accepted, { kind: 'conflict' }>

function jobsOf(admission: Admission): readonly Job[] {
  if (!admission.ok) throw errorOf(admission.refusal)
  return admission.jobs
}

function withoutConflict(accepted: Accepted): NoConflict {
  if (accepted.kind === 'conflict') throw keyUsedBefore()
  return accepted
}
