/**
 * Deliberate defects of the code that decides which job runs and calls next: the scheduler, suspects, and the health of model
 * servers. Each is one that the simulation must detect (mutations.ts).
 */

export interface Mutation {
  readonly what: string
  readonly file: string
  readonly text: string
  readonly by: string
  /** The real store that has the defect; the reference store does not. */
  readonly store?: 'sqlite' | 'postgres'
  /** The plans in `found/` whose histories the defect must break: those of bugs that the defect repeats. */
  readonly plans?: readonly string[]
}

export const SCHEDULING_MUTATIONS: readonly Mutation[] = [
  {
    what: 'queued jobs whose deadline has passed are not failed',
    file: 'src/queue/worker.ts',
    text: '      await failPastDeadline(this.#options)\n',
    by: '',
  },
  {
    what: 'a running job is not aborted at its deadline',
    file: 'src/queue/worker.ts',
    text: "() => held.stop.now('deadline')",
    by: '() => {}',
  },
  {
    what: 'low jobs start before high ones',
    file: 'src/queue/scheduler.ts',
    text: 'return [...due, ...PRIORITIES.flatMap(of)]',
    by: 'return [...due, ...PRIORITIES.toReversed().flatMap(of)]',
  },
  {
    what: 'the slot of a job that ended is kept',
    file: 'src/queue/scheduler.ts',
    text: '    this.#held.add(account, -1)\n    queue.of.held',
    by: '    queue.of.held',
  },
  {
    what: 'a job that was queued during a claim is forgotten',
    file: 'src/queue/scheduler.ts',
    text: 'if (additions === queue.additions) queue.learn',
    by: 'queue.learn',
  },
  {
    what: 'a job is forgotten that was queued while the calls of its account fail',
    file: 'src/queue/route-queue.ts',
    text: '      this.passedOver(account)\n      return',
    by: '      return',
  },
  {
    what: 'no slot is kept for other accounts',
    file: 'src/sharing/fair-slots.ts',
    text: 'Math.max(1, Math.floor(slots * SLOT_RESERVE))',
    by: '0',
  },
  {
    what: 'a job that crashes its servers is called again without a pause',
    file: 'src/upstreams/breaks.ts',
    text: 'seen < CAREFUL || isIsolated(breaks)',
    by: 'seen > 0',
  },
  {
    what: 'all suspects run at once',
    file: 'src/queue/suspect-groups.ts',
    text: 'const limit = this.#limit - this.#running',
    by: 'const limit = 100',
  },
  {
    what: 'jobs that failed last are forgotten if a claim that passed over them found others',
    file: 'src/queue/route-queue.ts',
    text: '    if (hasExcepted && found > 0) return\n',
    by: '',
  },
  {
    what: 'suspects of a limited route are never claimed',
    file: 'src/queue/scheduler.ts',
    text: '.filter((state) => state.allowed(null) <= 0)',
    by: '',
  },
  {
    what: 'the trial of a call that is aborted does not end',
    file: 'src/upstreams/call-target.ts',
    text: '      health.ended(account, jobId, result)\n',
    by: "      if (result.kind !== 'ignored') health.ended(account, jobId, result)\n",
  },
  {
    what: 'the slot of a call that is aborted is kept',
    file: 'src/upstreams/call-target.ts',
    text: '      slots.release(account)\n',
    by: '      if (signal.reason === null) slots.release(account)\n',
  },
  {
    what: 'a circuit breaker never closes',
    file: 'src/upstreams/circuit-breaker.ts',
    text: '    if (trouble === null) {\n',
    by: '    if (trouble === undefined) {\n',
  },
  {
    what: 'the end of a trial is not reported',
    file: 'src/upstreams/circuit-breaker.ts',
    text: '    this.availableSinceMs = this.#clock.nowMs()\n    this.#onChange()\n',
    by: '    this.availableSinceMs = this.#clock.nowMs()\n',
  },
  {
    what: 'an outage counts against the job',
    file: 'src/upstreams/router.ts',
    text: '    default:\n      return false\n  }\n}',
    by: '    default:\n      return true\n  }\n}',
  },
  {
    what: 'the tokens of calls before the last are not counted',
    file: 'src/upstreams/call-target.ts',
    text: 'attempt.tokens = sumOfTokens(attempt.tokens, reply.tokens ?? NO_TOKENS)',
    by: 'attempt.tokens = reply.tokens ?? NO_TOKENS',
  },
  {
    what: "a model server's Retry-After is ignored",
    file: 'src/upstreams/circuit-breaker.ts',
    text: 'open(trouble, retryAfterMs ?? 0)',
    by: 'open(trouble, 0)',
  },
  {
    what: 'targets are called again at once',
    file: 'src/upstreams/retry-after.ts',
    text: 'const backoffMs = FIRST_BACKOFF_MS * BACKOFF_FACTOR ** (round - 1)',
    by: 'const backoffMs = 10 * round',
  },
  {
    what: 'a slot that a claim held is kept if the claim found nothing',
    file: 'src/queue/scheduler.ts',
    text: '    this.#held.add(CLAIM_IN_PROGRESS, -claim.limit)',
    by: '    if (jobs.length > 0) this.#held.add(CLAIM_IN_PROGRESS, -claim.limit)',
  },
  {
    what: 'jobs that a walk skipped are forgotten',
    file: 'src/queue/scheduler.ts',
    text: '    for (const account of except) if (!queue.lanes.has(account)) queue.passedOver(account)\n',
    by: '',
  },
  {
    what: 'the start of a suspect is not recorded',
    file: 'src/queue/worker.ts',
    text: '            if (place.isSuspect) await this.#recordStart(job, stop)\n',
    by: '',
  },
  {
    what: 'a crash counts for suspects that only waited in it',
    file: 'test/simulation/memory-store/jobs.ts',
    text: 'crashCount > 0 && startedAttempt === attempt',
    by: 'crashCount > 0',
  },
  {
    what: 'a suspect fails although others ran in its last crash',
    file: 'src/queue/execute.ts',
    text: ' && job.crashedAlone',
    by: '',
  },
  {
    what: 'a success ends a Retry-After',
    file: 'src/upstreams/circuit-breaker.ts',
    text: 'this.#trialJob !== jobId && this.#clock.steadyMs() < this.#retryAtMs',
    by: 'false',
    plans: ['called-before-its-retry-after-is-over'],
  },
  {
    what: 'an account that holds nothing waits until a busy model server has room',
    file: 'src/queue/scheduler.ts',
    text: 'if (!queue.hasNewcomers || !queue.walk.mayBeQueued || queue.of.newcomers >= MAX_NEWCOMERS) return null',
    by: 'if (queue.newcomers >= 0) return null',
  },
  {
    what: 'newcomers that call are still counted as waiting',
    file: 'src/queue/scheduler.ts',
    text: '    if (place.isNewcomer) place.queue.of.newcomers -= 1\n',
    by: '',
  },
  {
    what: 'the limit of an account does not limit its hand-offs and lanes',
    file: 'src/queue/route-queue.ts',
    text: 'return Math.min(leftOf(this.limited), leftOf(own))',
    by: 'return own === null ? leftOf(this.limited) : Number.POSITIVE_INFINITY',
  },
  {
    what: 'jobs that claims skipped are not remembered',
    file: 'src/queue/route-queue.ts',
    text: '    this.lanes.set(account, { anyJob: false })\n',
    by: '    if (lane === undefined) return\n',
  },
  {
    what: 'jobs that are queued are not noticed',
    file: 'src/queue/route-queue.ts',
    text: '    this.walk.mayBeQueued = true\n',
    by: '',
  },
  {
    what: 'a lane stays after all its jobs are claimed',
    file: 'src/queue/route-queue.ts',
    text: '    else this.lanes.delete(from.account)\n',
    by: '',
  },
  {
    what: 'suspects that ended still count as running',
    file: 'src/queue/suspect-groups.ts',
    text: '    this.#running -= 1\n',
    by: '',
  },
  {
    what: 'a model server that fails the calls of one account is unavailable to all',
    file: 'src/upstreams/target-health.ts',
    text: 'if (own.failed(jobId, retryAfterMs, trouble) && isQuiet) this.#considerAll(account, trouble)',
    by: 'if (own.failed(jobId, retryAfterMs, trouble)) this.#openForAll(trouble)',
  },
  {
    what: 'old failures of another account make a model server unavailable to all',
    file: 'src/upstreams/target-health.ts',
    text: ' && failedAt === this.#successes',
    by: ') continue',
  },
  {
    what: 'a Retry-After is ignored while a model server is unavailable',
    file: 'src/upstreams/target-health.ts',
    text: "this.all.phase !== 'available' && retryAfterMs === null && !own",
    by: "this.all.phase !== 'available' && !own",
  },
  {
    what: 'a schema that crashes model servers is sent again',
    file: 'src/upstreams/call-target.ts',
    text: "form.kind === 'schema' &&\n      (isSentWithoutSchema",
    by: "form.kind === 'json' &&\n      (isSentWithoutSchema",
  },
  {
    what: 'a job that crashes its model server each time does not fail',
    file: 'src/upstreams/call-target.ts',
    text: 'attempt.broke = { fails }',
    by: 'attempt.broke = { fails: false }',
  },
  {
    what: 'a job that may crash its first target waits for it behind queued jobs',
    file: 'src/upstreams/router.ts',
    text: 'failures === 0 && this.#isKeptAtFirst(attempt) ?',
    by: 'failures < 0 ?',
    plans: ['job-that-may-crash-its-target-waits-for-a-trial'],
  },
  {
    what: 'a walk does not advance the turn of its route',
    file: 'test/simulation/memory-store/claims.ts',
    text: "if (from.of !== 'suspects') db.claimed",
    by: "if (from.of === 'account') db.claimed",
  },
  {
    what: 'a claim of a lane does not advance the turn of its route',
    file: 'test/simulation/memory-store/claims.ts',
    text: "if (from.of !== 'suspects') db.claimed",
    by: "if (from.of === 'route') db.claimed",
  },
  {
    what: 'on SQLite, claims do not advance the turn of their route',
    file: 'src/store/sqlite/claim.ts',
    text: 'for (const row of rows) file.places.claimed(from.route, Number(row[TURN]))',
    by: '',
    store: 'sqlite',
  },
  {
    what: 'a success of another account lowers a limit that has grown since',
    file: 'src/upstreams/concurrency-limit.ts',
    text: 'if (limit > this.found) {',
    by: '{',
  },
]
