/**
 * Deliberate defects of production code, each of which the simulation must detect. A change replaces the only occurrence of
 * its text.
 */

export interface Mutation {
  readonly what: string
  readonly file: string
  readonly text: string
  readonly by: string
  /** The plans in `found/` whose histories it must break: those of bugs which this defect repeats. */
  readonly plans?: readonly string[]
}

export const MUTATIONS: readonly Mutation[] = [
  {
    what: 'a caller is answered before its job is stored',
    file: 'src/queue/enqueue.ts',
    text: 'const accepted = await store.accept(acceptance)',
    by: "void store.accept(acceptance).catch(() => {})\n      const accepted = { kind: 'accepted' } as Accepted",
  },
  {
    what: 'slots of jobs that were not accepted are kept',
    file: 'src/queue/enqueue.ts',
    text: 'if (unused.length > 0) worker?.free(unused)',
    by: '',
  },
  {
    what: 'slots of jobs that a cached response completed are kept',
    file: 'src/queue/enqueue.ts',
    text: 'if (isHandedOff) unused.push(job)',
    by: '',
  },
  {
    what: 'a job that a cached response completed runs as well',
    file: 'src/queue/enqueue.ts',
    text: '        } else if (isHandedOff) void worker?.execute({ ...job, attempt: 1, crashCount: 0 }, keys[index])',
    by: '        }\n        if (isHandedOff) void worker?.execute({ ...job, attempt: 1, crashCount: 0 }, keys[index])',
  },
  {
    what: 'the result of a job that a cached response completed is not reported',
    file: 'src/queue/enqueue.ts',
    text: 'this.#answer(job, answer)',
    by: '',
  },
  {
    what: 'the cached response of a job is reported, and its job is not ended',
    file: 'test/simulation/memory-store/jobs.ts',
    text: '    end(db, row, outcome, { nowMs, cache: null })\n    answered.push',
    by: '    answered.push',
  },
  {
    what: 'a cached response is not looked up when a job is accepted',
    file: 'src/queue/enqueue.ts',
    text: 'this.#newJob(job, index < slots, awaited, keys[index] ?? null)',
    by: 'this.#newJob(job, index < slots, awaited, null)',
  },
  {
    what: 'a job that was queued is not looked up again',
    file: 'src/queue/execute.ts',
    text: 'if (cacheKey === undefined && fingerprint !== null) {',
    by: 'if (cacheKey === null && fingerprint !== null) {',
  },
  {
    what: 'the slot of a job that ended is kept',
    file: 'src/queue/worker.ts',
    text: '      this.#capacity.release(job)\n      if (this.#limited.isAny)',
    by: '      if (this.#limited.isAny)',
  },
  {
    what: 'a job that waits for a model server is not returned to the queue',
    file: 'src/queue/worker.ts',
    text: '() => store.releaseWaiting(node, [{ ...claimOf(job), ...wait }]),',
    by: 'async () => {},',
  },
  {
    what: 'a job that was queued during a claim is forgotten',
    file: 'src/queue/claim-plan.ts',
    text: '} else if (wakeUps === this.#wakeUps) {',
    by: '} else {',
  },
  {
    what: 'a job that was queued during a claim of its route is forgotten',
    file: 'src/queue/limited-routes.ts',
    text: ' || wakeUps !== this.#wakeUps\n    }',
    by: '\n    }',
  },
  {
    what: 'no slot is kept for other accounts',
    file: 'src/queue/capacity.ts',
    text: 'Math.max(1, Math.floor(slots * SLOT_RESERVE))',
    by: '0',
  },
  {
    what: 'poison candidates run next to each other',
    file: 'src/queue/poison-jobs.ts',
    text: 'limit: this.#running === 0 ? 1 : 0',
    by: 'limit: 100',
  },
  {
    what: 'a settlement that fails is not retried',
    file: 'src/queue/retry-write.ts',
    text: "if (!mayRetry()) return 'given up'",
    by: "return 'given up'",
  },
  {
    what: 'what earlier runs used is lost',
    file: 'src/queue/execute.ts',
    text: 'this.#inputTokens = earlier.inputTokens',
    by: 'this.#inputTokens = 0',
  },
  {
    what: 'a cached response serves other accounts',
    file: 'src/job/fingerprint.ts',
    text: 'const before = `',
    by: "account = ''\n  const before = `",
  },
  {
    what: 'a wait that times out keeps its slot',
    file: 'src/queue/pending-responses.ts',
    text: '    this.#remove(left)\n',
    by: '',
  },
  {
    what: 'only one of the requests that wait for a job is answered',
    file: 'src/queue/pending-responses.ts',
    text: 'for (; pending; pending = pending.next) {',
    by: 'for (; pending; pending = null) {',
  },
  {
    what: 'a wait for a job that was deleted continues',
    file: 'src/queue/remote-results.ts',
    text: 'for (const jobId of await store.findMissing(existed)) onVanished(jobId)',
    by: '',
    plans: ['awaited-job-deleted-right-after-it-ended'],
  },
  {
    what: 'the jobs that the database confirms are ended',
    file: 'src/queue/node-lease.ts',
    text: 'claims.filter((claim) => !ours.has(keyOf(claim))',
    by: 'claims.filter((claim) => ours.has(keyOf(claim))',
  },
  {
    what: 'jobs of a job holder that the database disagrees about are never released',
    file: 'src/queue/node-lease.ts',
    text: 'await store.release(node, twice)',
    by: '',
  },
  {
    what: 'a crash is confirmed at once',
    file: 'src/queue/node-lease.ts',
    text: 'const absentMs = ABSENT_LEASES * leaseMs',
    by: 'const absentMs = -1',
  },
  {
    what: 'a crash is confirmed by the clock of the database alone',
    file: 'src/queue/node-lease.ts',
    text: 'const dead = absent.filter((node) => nowMs - (sinceMs.get(node) ?? nowMs) >= absentMs)',
    by: 'const dead = absent',
    plans: ['clock-jumps-while-a-node-is-paused'],
  },
  {
    what: 'nodes are considered dead right after an outage of the database',
    file: 'src/queue/node-lease.ts',
    text: 'if (clock.steadyMs() - this.#inTouchSinceMs < leaseMs) return',
    by: '',
  },
  {
    what: 'a job that this node has claimed again is forgotten when its earlier run ends',
    file: 'src/queue/worker.ts',
    text: 'if (this.#held.get(job.id) === held) this.#held.delete(job.id)',
    by: 'this.#held.delete(job.id)',
    plans: [
      'claimed-again-before-its-release-is-confirmed',
      'claimed-again-while-its-earlier-run-is-settled',
    ],
  },
  {
    what: 'a claim of a route that found fewer jobs than it might have counts as the last',
    file: 'src/queue/limited-routes.ts',
    text: 'state.mayBeQueued = jobs.length > 0 ||',
    by: 'state.mayBeQueued = jobs.length === limit ||',
    plans: ['candidate-queued-beside-other-jobs-of-its-route'],
  },
  {
    what: 'poison candidates of a limited route are never claimed',
    file: 'test/simulation/memory-store/claims.ts',
    text: '  return amongRoute(candidates, Math.min(limit, most), nowMs, ofRoute)',
    by: '  return []',
    plans: ['poison-candidate-of-limited-route'],
  },
  {
    what: 'the lease is renewed late',
    file: 'src/app/lease-renewal.ts',
    text: '< leaseMs / RENEWALS) return',
    by: '< leaseMs * 1.5) return',
  },
  {
    what: 'the permit of a call that is aborted is kept',
    file: 'src/upstreams/router.ts',
    text: 'if (permit !== null) health.release',
    by: "if (permit !== null && result !== 'ignored') health.release",
  },
  {
    what: 'the slot of a call that is aborted is kept',
    file: 'src/upstreams/router.ts',
    text: '      slots.release(account)\n',
    by: "      if (result !== 'ignored') slots.release(account)\n",
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
    text: "    if (permit === 'probe') this.#onChange(this)\n",
    by: "    if (permit === 'probe' && result === 'ignored') this.#onChange(this)\n",
    plans: ['end-of-trial-not-reported'],
  },
  {
    what: 'an outage counts against the job',
    file: 'src/upstreams/router.ts',
    text: '    default:\n      return false\n  }\n}',
    by: '    default:\n      return true\n  }\n}',
  },
  {
    what: 'the tokens of calls before the last are not counted',
    file: 'src/upstreams/router.ts',
    text: 'attempt.tokens = { input: attempt.tokens.input + input, output: attempt.tokens.output + output }',
    by: 'attempt.tokens = { input, output }',
  },
  {
    what: 'a callback counts as delivered whatever its receiver answers',
    file: 'src/callbacks/retry-schedule.ts',
    text: 'if (result.status >= 200 && result.status < 300)',
    by: 'if (result.status >= 200)',
  },
  {
    what: 'a callback is recorded as delivered before it is sent',
    file: 'src/callbacks/callback-sender.ts',
    text: '    const result = await poster.post(callbackRequest({ ...body, secrets }, atMs))\n',
    by: "    void this.record(delivery, { kind: 'sent', result: { kind: 'answered', status: 200, retryAfterMs: null, bodyStart: '', ms: 0 }, atMs, health: 'coping' }).catch(() => {})\n    const result = await poster.post(callbackRequest({ ...body, secrets }, atMs))\n",
  },
  {
    what: 'a callback is signed for another body',
    file: 'src/callbacks/callback-request.ts',
    text: 'sign(secretsInForce(secrets, nowMs), view.id, timestampS, body)',
    by: "sign(secretsInForce(secrets, nowMs), view.id, timestampS, '')",
  },
  {
    what: 'a delivery that ended keeps its slot',
    file: 'src/callbacks/delivery-queue.ts',
    text: '    deliveries.remove(delivery)\n    this.#endedSincePoll += 1\n',
    by: '    this.#endedSincePoll += 1\n',
  },
  {
    what: 'a cancelled job continues to run',
    file: 'src/queue/cancellation.ts',
    text: 'const job = worker.lose(claim)',
    by: 'const job = null as ClaimedJob | null',
  },
  {
    what: 'an account is deleted although it has open jobs',
    file: 'test/simulation/memory-store/accounts.ts',
    text: "      if ([...db.open].some(({ job }) => job.account === name)) return 'has open jobs'\n",
    by: '',
    plans: ['job-stored-between-last-look-and-deletion-of-account'],
  },
]
