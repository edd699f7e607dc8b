/** Connects the detection of context shifts to the threads, the metrics and the log. */
import type { Clock } from '../clock.ts'
import type { CpuPool } from '../cpu-pool/cpu-pool.ts'
import { ContextShifts } from '../queue/context-shift.ts'
import { errorFields, type Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'

export interface ContextShiftParts {
  readonly pool: Pick<CpuPool, 'run'>
  readonly clock: Clock
  readonly weightOf: (tier: string) => number
  readonly metrics: Metrics
  readonly log: Log
}

export function createContextShifts({ metrics, log, ...parts }: ContextShiftParts): ContextShifts {
  return new ContextShifts({
    ...parts,
    onShift: ({ jobId, target, promptTokens, counted }) => {
      metrics.contextShifted(target)
      const fields = { job_id: jobId, target, prompt_tokens: promptTokens, counted_tokens: counted }
      log.warn(
        fields,
        'the model server counted far fewer tokens than the conversation has; its context is probably too small, so it dropped a part (context shift)',
      )
    },
    onError: (error) =>
      log.warn(errorFields(error), 'could not count the tokens of an answered conversation'),
  })
}
