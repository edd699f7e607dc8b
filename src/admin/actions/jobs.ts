/** Declares the admin actions on jobs, on batches of OpenAI's API, and on the database that stores them. */

import type { StoredFile } from '../../store/file-store.ts'
import type { OperatorStore } from '../../store/operator-store.ts'
import { Type } from '../../typed-schema.ts'
import { adminAction } from '../action.ts'
import { afterDeletion, NO_SCRUB, SCRUB_HELP, SCRUBBED, scrubField, tryScrub } from '../deletion.ts'
import { strict } from '../fields.ts'
import { jobContent, jobContentJson } from '../job-view.ts'
import { refusals } from '../refusals.ts'
import { cancelAccountJobs } from './accounts.ts'
import { rerunActions } from './reruns.ts'

const readContents = adminAction({
  what: 'look at contents',
  about: 'job',
  fields: Type.Object({}),
  run: async ({ jobId }, { store, expiry }) =>
    (await store.jobContent(jobId, await expiry())) ?? refusals.noSuchJob(jobId),
  outcome: () => 'shown',
  route: {
    method: 'get',
    path: '/jobs/:jobId/content',
    operationId: 'getJobContent',
    summary: 'Show the contents of a job; each access is logged',
    description:
      'Returns the conversation, the answer and the receipt. The access is recorded in the audit log before the contents are read.',
    success: 'The contents.',
    data: jobContent,
    answer: (content) => ({ message: 'The contents of the job.', data: jobContentJson(content) }),
  },
})

const cancelJob = adminAction({
  what: 'cancel a job',
  about: 'job',
  fields: Type.Object({}),
  run: async ({ jobId }, { store, clock }) => {
    const result = await store.cancelJob(jobId, clock.nowMs())
    if (result === 'unknown') return refusals.noSuchJob(jobId)
    return result === 'cancelled' ? result : refusals.jobEnded(jobId)
  },
  outcome: (result) => result,
  cancels: true,
  route: {
    method: 'post',
    path: '/jobs/:jobId/cancel',
    operationId: 'cancelJob',
    summary: 'Cancel a queued or running job: it fails with `cancelled`',
    description:
      'The callback of the job is sent. If the job runs on this node, its call to the model server has been aborted by the time this route responds. On another node, the call is aborted within a second.',
    success: 'The job was cancelled.',
    data: Type.Object({ cancelled: Type.Literal(true) }),
    conflicts: true,
    answer: () => ({ data: { cancelled: true } }),
  },
  command: {
    name: 'jobs cancel',
    description: 'on the database: cancel a queued or running job, or the jobs of an account',
    arguments: { jobId: ['[job-id]', 'the job to cancel'] },
    options: {
      account: ['--account <name>', 'cancel all queued jobs of this account'],
      running: ['--running', 'with --account: also cancel its running jobs'],
    },
    help: '\nA cancelled job fails with the code `cancelled`, and its callback is sent. Its call to the model server ends within a second.',
    examples: ['parley jobs cancel 019a5d3e-…', 'parley jobs cancel --account acme --running'],
    choose: ({ jobId, account, running }) => {
      if ((jobId === undefined) === (account === undefined)) return 'Pass either a job ID or --account NAME.'
      if (jobId === undefined) return cancelAccountJobs
      return running
        ? '--running can only be used with --account. A single job is cancelled whether it is queued or running.'
        : null
    },
  },
  print: (_cancelled, { jobId }) => ({
    json: { cancelled: 1 },
    text: `Job ${jobId} was cancelled. If a server is running it, its call to the model ends within a second.`,
  }),
})

const deleteJob = adminAction({
  what: 'delete a job',
  about: 'job',
  fields: Type.Object({ scrub: scrubField }, strict),
  details: ({ scrub }) => ({ scrub }),
  run: async ({ jobId, scrub }, { store }) => {
    const kind = await store.deleteJob(jobId)
    if (kind === 'unknown') return refusals.noSuchJob(jobId)
    if (kind === 'not ended') return refusals.jobNotEnded(jobId)
    return { notScrubbed: scrub ? await tryScrub(store) : null }
  },
  outcome: ({ notScrubbed }) => (notScrubbed === null ? 'deleted' : `deleted, not scrubbed: ${notScrubbed}`),
  log: ({ scrub }) => ({ scrub }),
  shortfall: ({ jobId }, { notScrubbed }) =>
    notScrubbed === null ? null : refusals.notScrubbed(`Job ${jobId}`, notScrubbed),
  route: {
    method: 'delete',
    path: '/jobs/:jobId',
    operationId: 'deleteJob',
    summary: 'Permanently delete a finished job with its contents, cached response and callback',
    description:
      'Deletes the job and, unless `scrub` is `false`, removes its data from the disk as far as the database can. An unfinished job must be cancelled first.',
    success: 'The job was deleted.',
    data: Type.Object({ deleted: Type.Literal(true) }),
    conflicts: true,
    answer: () => ({ data: { deleted: true } }),
  },
  command: {
    name: 'jobs delete',
    description:
      'on the database: permanently delete a finished job with its contents, cached response and callback',
    arguments: { jobId: ['<job-id>', 'the job to delete'] },
    options: { scrub: NO_SCRUB },
    help: `\nIts usage still counts.\n${SCRUB_HELP}`,
    examples: ['parley jobs delete 019a5d3e-…', 'parley jobs delete 019a5d3e-… --no-scrub'],
  },
  print: (_deleted, { jobId, scrub }) => ({
    json: { deleted: true, scrubbed: scrub },
    text: `Job ${jobId} was deleted. ${afterDeletion(scrub)}`,
  }),
})

export const scrub = adminAction({
  what: 'scrub the database',
  about: null,
  fields: Type.Object({}),
  run: async (_input, { store }) => {
    const why = await tryScrub(store)
    return why === null ? 'scrubbed' : refusals.scrubFailed(why)
  },
  outcome: (result) => result,
  command: {
    name: 'scrub',
    description: 'remove data that was deleted with --no-scrub from the disk',
    help: SCRUB_HELP,
    examples: ['parley jobs delete 019a5d3e-… --no-scrub && parley scrub'],
  },
  print: () => ({ json: { scrubbed: true }, text: SCRUBBED }),
})

export const jobActions = [readContents, cancelJob, ...rerunActions, deleteJob] as const

const cancelBatch = adminAction({
  what: 'cancel a batch',
  about: 'batch',
  fields: Type.Object({}),
  run: async ({ batchId }, { store, clock }) => {
    const found = await store.findAnyBatch(batchId)
    const nowMs = clock.nowMs()
    const cancelled = found && (await store.cancelBatch(found.account, batchId, nowMs))
    if (cancelled === null) return refusals.noSuchBatch(batchId)
    return cancelled.status === 'cancelling' ? cancelled.status : refusals.batchEnded(batchId)
  },
  outcome: (status) => status,
  route: {
    method: 'post',
    path: '/batches/:batchId/cancel',
    operationId: 'cancelAnyBatch',
    summary: 'Cancel a batch: no further lines start, and those that run are cancelled',
    description:
      'Its files contain the results of the lines that had finished. A second call changes nothing.',
    success: 'The batch is being cancelled.',
    data: Type.Object({ status: Type.String() }),
    conflicts: true,
    answer: (status) => ({ data: { status } }),
  },
})

const readFile = (file: 'output' | 'error') =>
  adminAction({
    what: `look at the ${file} file`,
    about: 'batch',
    fields: Type.Object({}),
    run: async ({ batchId }, { store, clock }) => {
      const found = await store.findAnyBatch(batchId)
      if (found === null) return refusals.noSuchBatch(batchId)
      const fileId = file === 'output' ? found.outputFileId : found.errorFileId
      const stored = fileId && (await store.findFile(found.account, fileId, clock.nowMs()))
      return stored
        ? { name: stored.filename, bytes: stored.bytes, pieces: piecesOf(store, stored) }
        : refusals.noSuchFile(batchId, file)
    },
    outcome: () => 'shown',
    route: {
      method: 'get',
      path: `/batches/:batchId/${file}`,
      operationId: file === 'output' ? 'downloadBatchOutput' : 'downloadBatchErrors',
      summary: `Download the ${file} file of a batch; each access is logged`,
      description: `A line of JSON for each line of the batch that ${file === 'output' ? 'was answered' : 'was not answered'}. The access is recorded in the audit log before the file is read.`,
      success: 'The content.',
      answer: (download) => ({ data: {}, download }),
    },
  })

async function* piecesOf(store: Pick<OperatorStore, 'readPiece'>, { id }: StoredFile) {
  for (let piece = 0; ; piece++) {
    const content = await store.readPiece(id, piece)
    if (content === null) return
    yield content
  }
}

export const batchActions = [cancelBatch, readFile('output'), readFile('error')] as const
