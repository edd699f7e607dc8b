/** Admin actions on batches of OpenAI's API. */
import type { StoredFile } from '../../store/file-store.ts'
import type { OperatorStore } from '../../store/operator-store.ts'
import { Type } from '../../typed-schema.ts'
import { adminAction } from '../action.ts'
import { refusals } from '../refusals.ts'

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

/** @param file which result file to read */
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
