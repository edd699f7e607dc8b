/**
 * Runs tasks of HTTP requests on the CPU pool, such as counting tokens, with a limit for each account. A request leaves the
 * pool when it is done, when its client disconnects, or when its time is over.
 */
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../../clock.ts'
import type { CpuPool } from '../../cpu-pool/cpu-pool.ts'
import type { TaskInput, TaskName, TaskOutput } from '../../cpu-pool/thread.ts'
import { Stop } from '../../job/stop.ts'
import { clientGone } from '../errors.ts'
import '../request-context.ts'
import { cpuBusy, cpuTimedOut } from './unavailable.ts'

/** Resolves with null if the client disconnected or the time is over. */
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
   * Rejects with an `HttpError` if the pool or the account's part is full, the time is over or the client has disconnected;
   * with `TaskFailed` if a task fails.
   * @param work must resolve with null if one of its tasks did
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
