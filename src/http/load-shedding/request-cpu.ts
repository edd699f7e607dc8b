/**
 * Runs requests' tasks on the CPU pool. The number of requests of an account is limited, and a request leaves the pool when
 * it is done, when its client hangs up, or when it times out.
 */
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../../clock.ts'
import type { CpuPool } from '../../cpu-pool/cpu-pool.ts'
import type { TaskInput, TaskName, TaskOutput } from '../../cpu-pool/tasks.ts'
import { Stop } from '../../job/stop.ts'
import { clientGone } from '../errors.ts'
import '../request-context.ts'
import { cpuBusy, cpuTimedOut } from './unavailable.ts'

/** Runs a task for the request. Null if the request was stopped. */
export type RunTask = <Name extends TaskName>(
  name: Name,
  input: TaskInput<Name>,
) => Promise<TaskOutput<Name> | null>

export class RequestCpu {
  readonly #pool: CpuPool
  readonly #clock: Clock

  constructor(pool: CpuPool, clock: Clock) {
    this.#pool = pool
    this.#clock = clock
  }

  /**
   * Rejects with an `HttpError` if the pool is full, the time is over or the client is gone, and with `TaskFailed` if a task
   * fails.
   * @param work resolves with null if one of its tasks did
   */
  async use<Result>(
    { caller, raw }: FastifyRequest,
    timeoutMs: number,
    work: (run: RunTask) => Promise<Result | null>,
  ): Promise<Result> {
    const { account, tier } = caller
    if (!this.#pool.enter(account)) throw cpuBusy()
    const stop = new Stop()
    const { socket } = raw
    const onClose = () => stop.now('lost')
    if (socket.destroyed) stop.now('lost')
    else socket.once('close', onClose)
    const cancelTimeout = this.#clock.after(timeoutMs, () => stop.now('timeout'))
    const user = { account, weight: tier.weight }
    try {
      const result = await work((name, input) => this.#pool.run(name, input, user, stop))
      if (result !== null) return result
      throw stop.reason === 'timeout' ? cpuTimedOut() : clientGone()
    } finally {
      cancelTimeout()
      socket.off('close', onClose)
      this.#pool.leave(account)
    }
  }
}
