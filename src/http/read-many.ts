/** Reads several jobs in one response, at once or as soon as any or all of them have finished. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { readJobId } from '../job/job-id.ts'
import { jobRecordJson } from '../job/job-record.ts'
import type { ReadJob } from '../store/store.ts'
import { sendData } from './envelope.ts'
import { invalid } from './errors.ts'
import { askAgainLater, type JobAwaiter } from './job-awaiter.ts'
import { hasEnded, type JobReader } from './job-reader.ts'

export const MAX_IDS = 100
/** Maximum bytes of the objects in one response; the first is sent regardless of its size. */
const MAX_BYTES = 8 * 1024 * 1024
/** An upper bound of what an object contains in addition to its result or error. */
const OBJECT_BYTES = 256

export interface JobsToRead {
  /** As the caller sent them. */
  readonly ids: readonly string[]
  readonly waitS: number
  readonly until: 'any' | 'all'
}

export type ReadMany = (
  request: FastifyRequest,
  reply: FastifyReply,
  jobs: JobsToRead,
) => Promise<FastifyReply>

export function createReadMany(reader: JobReader, awaiter: JobAwaiter): ReadMany {
  return async (request, reply, { ids, waitS, until }) => {
    const jobIds = readIds(ids)
    const states = await reader.states(request, jobIds)
    if (waitS > 0 && !areOver(states, until)) {
      const open = jobIds.filter((_, index) => isOpen(states[index]))
      const haveEnded = async () => areOver(await reader.states(request, open), until)
      const wasCut = await awaiter.wait(request, reply, { jobIds: open, until, waitS, haveEnded })
      // Jobs that had finished before the wait have not changed since.
      const now = (await reader.states(request, open)).values()
      for (const [index, state] of states.entries())
        if (isOpen(state)) states[index] = now.next().value ?? null
      if (wasCut && !areOver(states, until)) askAgainLater(reply)
    }
    return sendJobs(request, reply, jobIds, states)
  }

  async function sendJobs(
    request: FastifyRequest,
    reply: FastifyReply,
    jobIds: readonly string[],
    states: readonly (ReadJob | null)[],
  ): Promise<FastifyReply> {
    const found = states.filter((state) => state !== null)
    const { fitting, more } = fit(found)
    const records = await reader.load(request, fitting)
    // A job may have expired or been deleted since its state was read.
    const gone = new Set(fitting.filter((_, index) => !records[index]).map(({ id }) => id))
    const notFound = jobIds.filter((jobId, index) => states[index] === null || gone.has(jobId))
    const jobs = records.filter((record) => record !== null)
    request.jobIds = jobs.map(({ id }) => id)
    const json = `{"jobs":[${jobs.map(jobRecordJson).join(',')}],"not_found":${JSON.stringify(notFound)},"more":${JSON.stringify(more)}}`
    const ended = found.filter(hasEnded).length
    return sendData(reply, 200, `${ended} of ${jobIds.length} jobs have finished.`, json)
  }
}

/** Without duplicates, in the order given. */
function readIds(ids: readonly string[]): string[] {
  const jobIds = ids.map((text, index) => {
    const jobId = readJobId(text)
    if (jobId === null) throw invalid(`ids[${index}]: is not a job ID`)
    return jobId
  })
  return [...new Set(jobIds)]
}

function isOpen(state: ReadJob | null | undefined): boolean {
  return state !== null && state !== undefined && !hasEnded(state)
}

/** Whether a wait for these jobs is over. A job that does not exist (any longer) counts as finished. */
function areOver(states: readonly (ReadJob | null)[], until: 'any' | 'all'): boolean {
  return until === 'all' ? !states.some(isOpen) : !states.every(isOpen)
}

/** The jobs that fit into one response, and the IDs of the others. */
function fit(states: readonly ReadJob[]): { fitting: ReadJob[]; more: string[] } {
  const fitting: ReadJob[] = []
  const more: string[] = []
  let bytes = 0
  for (const state of states) {
    const { contentJson, errorJson, omittedBytes } = state
    const size = OBJECT_BYTES + omittedBytes + Buffer.byteLength(contentJson ?? errorJson ?? '')
    if (fitting.length > 0 && bytes + size > MAX_BYTES) more.push(state.id)
    else {
      fitting.push(state)
      bytes += size
    }
  }
  return { fitting, more }
}
