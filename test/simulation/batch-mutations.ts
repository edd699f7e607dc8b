/** Deliberate defects of the code that runs batches, each of which the simulation must detect (mutations.ts). */
import type { Mutation } from './scheduling-mutations.ts'

export const BATCH_MUTATIONS: readonly Mutation[] = [
  {
    what: 'a line of a batch whose result is stored stays open',
    file: 'src/batches/step.ts',
    text: 'endedJobIds: this.#ended.map(({ jobId }) => jobId),',
    by: 'endedJobIds: [],',
  },
  {
    what: 'a line of a batch that was started before a crash is linked to a job that does not exist',
    file: 'src/batches/line-starts.ts',
    text: 'jobId: accepted.jobIds[0] ?? job.id',
    by: 'jobId: job.id',
  },
  {
    what: 'lines of a batch that did not start in time have no result',
    file: 'src/batches/batch-run.ts',
    text: 'else step.addProblem(wrong ?? format.unfinished(customId, this.#idOf(line), problem), problem)',
    by: '',
  },
  {
    what: 'a batch ends although its last lines wait for room',
    file: 'src/batches/batch-run.ts',
    text: '        this.#inputEnded = false\n',
    by: '',
  },
]
