/** Serves `/v1/files`. Files that do not exist and files of other accounts get the same error. */
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Files } from '../files/files.ts'
import { sendJson } from '../http/envelope.ts'
import type { LargeAnswers } from '../http/large-answers.ts'
import { isJobId } from '../job/job-id.ts'
import { PIECE_BYTES, type StoredFile } from '../store/file-store.ts'
import { Type } from '../typed-schema.ts'
import { invalidField, V1Error } from './errors.ts'
import {
  DOCUMENTED,
  deletedFile,
  errorResponses,
  fileContent,
  fileList,
  oneFile,
  UNCHECKED,
  uploadBody,
} from './openapi.ts'
import type { Uploads } from './upload.ts'

export interface FileRoutes {
  readonly files: Files
  readonly uploads: Uploads
  readonly answers: Pick<LargeAnswers, 'reserve'>
}

const PREFIX = 'file-'
const MAX_LISTED = 1000
const read = { bearer: true, limitReads: true } as const
const params = Type.Object({ file: Type.String() })
interface OfFile {
  readonly Params: { readonly file: string }
}

export function fileRoutes(app: FastifyInstance, { files, uploads, answers }: FileRoutes): void {
  const found = async ({ caller, params: { file: id } }: FastifyRequest<OfFile>): Promise<StoredFile> => {
    const fileId = fileIdOf(id)
    const file = fileId && (await files.find(caller.account, fileId))
    if (!file) throw noSuchFile(id)
    return file
  }

  uploadRoute(app, uploads)

  const listed = {
    ...DOCUMENTED,
    operationId: 'listFiles',
    summary: 'List your files',
    querystring: Type.Object({
      after: Type.Optional(Type.String({ description: 'The `id` of the last file of the previous page.' })),
      limit: Type.Optional(Type.String({ description: `At most ${MAX_LISTED} files are listed at once.` })),
      order: Type.Optional(
        Type.String({ description: '`asc` or `desc`, the default, by time of creation.' }),
      ),
      purpose: Type.Optional(Type.String()),
    }),
    response: { 200: fileList, ...errorResponses },
  }
  app.get('/v1/files', { config: read, schema: listed, ...UNCHECKED }, async (request, reply) => {
    const { limit, ...search } = searchOf(request.query as Record<string, unknown>)
    const rows = await files.list({ ...search, account: request.caller.account, limit: limit + 1 })
    const data = rows.slice(0, limit).map(fileView)
    const [first, last] = [data.at(0), data.at(-1)]
    const page = { object: 'list', data, first_id: first?.id ?? null, last_id: last?.id ?? null }
    return sendJson(reply, JSON.stringify({ ...page, has_more: rows.length > limit }))
  })

  const retrieved = {
    ...DOCUMENTED,
    operationId: 'retrieveFile',
    summary: 'Retrieve a file, without its content',
    params,
    response: { 200: oneFile, ...errorResponses },
  }
  app.get<OfFile>('/v1/files/:file', { config: read, schema: retrieved }, async (request, reply) => {
    const file = await found(request)
    return sendJson(reply, JSON.stringify(fileView(file)))
  })

  const deleted = {
    ...DOCUMENTED,
    operationId: 'deleteFile',
    summary: 'Delete a file',
    params,
    response: { 200: deletedFile, ...errorResponses },
  }
  app.delete<OfFile>(
    '/v1/files/:file',
    { config: { bearer: true }, schema: deleted },
    async (request, reply) => {
      const { id, account } = await found(request)
      await files.delete(account, id)
      return sendJson(reply, JSON.stringify({ id: fileName(id), object: 'file', deleted: true }))
    },
  )

  const content = {
    ...DOCUMENTED,
    operationId: 'downloadFile',
    summary: 'Download the content of a file',
    params,
    response: { 200: fileContent, ...errorResponses },
  }
  app.get<OfFile>('/v1/files/:file/content', { config: read, schema: content }, async (request, reply) => {
    const file = await found(request)
    void reply.header('content-type', 'application/octet-stream').header('content-length', file.bytes)
    // Fastify would read the whole content even for a HEAD request, whose response has no body.
    if (request.method === 'HEAD') return reply.send(Readable.from([]))
    // Two pieces are in memory at most: one from the database, and one that is being sent.
    await answers.reserve(request, Math.min(file.bytes, 2 * PIECE_BYTES))
    const stream = Readable.from(files.read(file), { objectMode: false, highWaterMark: PIECE_BYTES })
    return reply.send(stream)
  })
}

/** Only this route has a body that is not JSON. Its own Fastify scope keeps the other routes from accepting such bodies. */
function uploadRoute(app: FastifyInstance, uploads: Uploads): void {
  const uploaded = {
    ...DOCUMENTED,
    operationId: 'uploadFile',
    summary: 'Upload a file',
    consumes: ['multipart/form-data'],
    body: uploadBody,
    response: { 200: oneFile, ...errorResponses },
  }
  void app.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('multipart/form-data', (_request, _payload, done) => done(null, {}))
    scope.addContentTypeParser('*', (_request, _payload, done) => done(notMultipart()))
    scope.post(
      '/v1/files',
      { config: { bearer: true, upload: true }, schema: uploaded, ...UNCHECKED },
      async (request, reply) => {
        if (request.body === undefined) throw notMultipart()
        const file = await uploads.receive(request)
        return sendJson(reply, JSON.stringify(fileView(file)))
      },
    )
    done()
  })
}

function fileView({ id, bytes, createdAtMs, expiresAtMs, filename, purpose }: StoredFile) {
  return {
    id: fileName(id),
    object: 'file',
    bytes,
    created_at: Math.floor(createdAtMs / 1000),
    ...(expiresAtMs !== null && { expires_at: Math.floor(expiresAtMs / 1000) }),
    filename,
    purpose,
    status: 'processed',
  }
}

export const fileName = (id: string) => PREFIX + id

/** Returns the ID without its prefix; null for a text that is not a file ID. */
export function fileIdOf(text: string): string | null {
  const id = text.slice(PREFIX.length)
  return text.startsWith(PREFIX) && isJobId(id) ? id : null
}

function searchOf({ after, limit = '10000', order = 'desc', purpose }: Record<string, unknown>) {
  const afterFileId = typeof after === 'string' ? fileIdOf(after) : null
  if (after !== undefined && afterFileId === null) throw invalidField('after', 'must be the id of a file')
  if (order !== 'asc' && order !== 'desc') throw invalidField('order', 'must be asc or desc')
  // Postgres rejects NUL in any text.
  if (purpose !== undefined && (typeof purpose !== 'string' || purpose.includes('\0')))
    throw invalidField('purpose', 'must be one purpose')
  const most = /^\d{1,5}$/.test(String(limit)) ? Number(limit) : 0
  if (most < 1 || most > 10_000) throw invalidField('limit', 'must be from 1 to 10000')
  return {
    limit: Math.min(most, MAX_LISTED),
    newestFirst: order === 'desc',
    ...(afterFileId !== null && { afterFileId }),
    ...(purpose !== undefined && { purpose }),
  }
}

const noSuchFile = (id: string) =>
  new V1Error(404, `No such file: ${id.slice(0, 100)}. It does not exist or has expired.`, { param: 'id' })

const notMultipart = () => new V1Error(415, 'Content-Type: must be multipart/form-data.')
