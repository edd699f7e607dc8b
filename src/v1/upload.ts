/**
 * Reads an uploaded file from a multipart body and stores it while it arrives, so that little of it is in memory. If the upload
 * fails, the stored pieces are deleted. Slow uploads are aborted, because each takes memory.
 */

import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Busboy, type BusboyFileStream } from '@fastify/busboy'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import type { Files, FileWriter, Written } from '../files/files.ts'
import { admissionError } from '../http/errors.ts'
import { memoryFull } from '../http/load-shedding/unavailable.ts'
import type { RequestBodies } from '../http/request-bodies.ts'
import { Counts } from '../sharing/counts.ts'
import type { AboutFile, StoredFile } from '../store/file-store.ts'
import { invalidField, V1Error } from './errors.ts'

/** Limits the concurrent uploads of an account to a node. */
export const UPLOADS_OF_ACCOUNT = 2
/** Limits the concurrent uploads to a node. Each takes about 1 MiB of memory. */
export const UPLOADS_OF_NODE = 32
/** After a failed upload, the rest of its body must arrive within this time. */
const REST_MS = 30_000
/** Everything in a multipart body except the file fits into this many bytes. */
const ENVELOPE_BYTES = 65_536
const MAX_FILENAME = 255
/** OpenAI has the same limits. */
const LIFETIME_S = { minimum: 3600, maximum: 2_592_000 }

export interface UploadsOptions {
  readonly files: Files
  readonly bodies: Pick<RequestBodies, 'readOn'>
  readonly clock: Clock
  /** A file whose upload specifies no lifetime is stored this long. */
  readonly retentionMs: number
}

export class Uploads {
  readonly #options: UploadsOptions
  readonly #inProgress = new Counts<string>()
  readonly #sockets = new WeakSet<Socket>()

  constructor(options: UploadsOptions) {
    this.#options = options
  }

  /** An upload has a minimum rate instead of the timeout of requests. */
  readonly isUploading = (socket: Socket): boolean => this.#sockets.has(socket)

  async receive(request: FastifyRequest): Promise<StoredFile> {
    const { caller, raw } = request
    const { account, tier, suspended } = caller
    if (suspended) throw admissionError({ kind: 'suspended', account })
    if (Number(raw.headers['content-length'] ?? 0) > tier.maxFileBytes + ENVELOPE_BYTES)
      throw tooLarge(tier.maxFileBytes)
    if (this.#inProgress.of(account) >= UPLOADS_OF_ACCOUNT) throw tooManyUploads()
    if (this.#inProgress.total >= UPLOADS_OF_NODE) throw memoryFull('uploads')
    this.#inProgress.add(account, 1)
    this.#sockets.add(raw.socket)
    try {
      return await this.#store(request)
    } finally {
      this.#inProgress.add(account, -1)
      this.#sockets.delete(raw.socket)
      if (!raw.complete) this.#limitRest(request)
    }
  }

  async #store(request: FastifyRequest): Promise<StoredFile> {
    const { files, bodies, clock, retentionMs } = this.#options
    const { maxFiles, maxFileBytes } = request.caller.tier
    const writer = await files.begin(request.caller)
    if (writer === null) throw tooManyFiles(maxFiles)
    try {
      let bytes = 0
      bodies.readOn(request)
      const body = await readMultipart(request.raw, {
        clock,
        onContent: async (content) => {
          bytes += content.length
          if (bytes > maxFileBytes) throw tooLarge(maxFileBytes)
          mustBeWritten(await writer.write(content))
        },
      })
      return mustBeWritten(await writer.complete(aboutOf(body, writer.createdAtMs, retentionMs)))
    } catch (error) {
      await abort(writer)
      throw error
    }
  }

  /** Node's own timeout applies only once, and may have passed during the upload. */
  #limitRest({ raw }: FastifyRequest): void {
    const cancel = this.#options.clock.after(REST_MS, () => raw.destroy())
    raw.once('close', cancel)
  }
}

/** The caller gets the error of the upload, not one of this cleanup. */
async function abort(writer: FileWriter): Promise<void> {
  try {
    await writer.abort()
  } catch {
    // The database cannot write now. Retention deletes the file later.
  }
}

function mustBeWritten<Result>(result: Result | Written): Exclude<Result, Written> {
  if (result === 'gone')
    throw new V1Error(409, 'The file was deleted while it was uploaded.', { shouldRetry: false })
  if (typeof result === 'object' && result !== null && 'kind' in result) throw admissionError(result)
  return result as Exclude<Result, Written>
}

function aboutOf({ fields, filename }: Multipart, createdAtMs: number, retentionMs: number): AboutFile {
  const purpose = fields.get('purpose')
  if (purpose !== 'batch') throw invalidField('purpose', 'must be batch')
  if (filename.includes('\0')) throw invalidField('file', 'must not have NUL in its name')
  const [anchor, seconds] = ['anchor', 'seconds'].map((name) => fields.get(`expires_after[${name}]`))
  const expiresAtMs = createdAtMs + (lifetimeMs(anchor, seconds) ?? retentionMs)
  return { filename: filename.slice(0, MAX_FILENAME), purpose, expiresAtMs }
}

function lifetimeMs(anchor: string | undefined, seconds: string | undefined): number | null {
  if (anchor === undefined && seconds === undefined) return null
  if (anchor !== 'created_at') throw invalidField('expires_after[anchor]', 'must be created_at')
  const { minimum, maximum } = LIFETIME_S
  const value = /^\d{1,9}$/.test(seconds ?? '') ? Number(seconds) : 0
  if (value < minimum || value > maximum)
    throw invalidField('expires_after[seconds]', `must be from ${minimum} to ${maximum}`)
  return value * 1000
}

const tooLarge = (limit: number) =>
  new V1Error(413, `The file is too large: your tier allows ${limit} bytes.`, { param: 'file' })

const tooManyUploads = () =>
  new V1Error(429, `An account may upload ${UPLOADS_OF_ACCOUNT} files at the same time.`, {
    code: 'rate_limit_exceeded',
    shouldRetry: true,
    retryAfterMs: 1000,
  })

const tooManyFiles = (limit: number) =>
  new V1Error(429, `Your account has ${limit} files, which is the limit of its tier. Delete some of them.`, {
    code: 'insufficient_quota',
    shouldRetry: false,
  })

/** These limits do not apply to the content of the file. */
const FORM_LIMITS = {
  files: 1,
  fields: 10,
  parts: 11,
  fieldSize: 1024,
  fieldNameSize: 100,
  headerPairs: 20,
  headerSize: 8192,
} as const

interface MultipartOptions {
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  /** The next call waits until the promise of the previous one has resolved. */
  readonly onContent: (bytes: Uint8Array) => Promise<void>
}

interface Multipart {
  readonly fields: ReadonlyMap<string, string>
  readonly filename: string
}

/** Rejects with a `V1Error` or with the error of `onContent`. The rest of the body then remains unread. */
export function readMultipart(request: IncomingMessage, options: MultipartOptions): Promise<Multipart> {
  return new Promise((resolve, reject) => {
    // A destroyed request emits no more events, so the promise would stay pending.
    if (request.destroyed) throw disconnected()
    const parser = parserOf(request)
    const fields = new Map<string, string>()
    let file: {
      readonly stream: BusboyFileStream
      readonly filename: string
      readonly stored: Promise<void>
    } | null = null
    let isOver = false
    const end = (error: unknown): void => {
      if (isOver) return
      isOver = true
      stopWatching()
      request.off('data', onData).off('end', onEnd).off('close', onClose).pause()
      if (error === null) {
        resolve({ fields, filename: file?.filename ?? '' })
        return
      }
      file?.stream.destroy()
      reject(error)
    }
    const stopWatching = watchPace(request, options.clock, end)
    const onData = (bytes: Buffer): void => {
      if (parser.write(bytes)) return
      request.pause()
      parser.once('drain', () => {
        if (!isOver) request.resume()
      })
    }
    const onEnd = () => {
      // The client has sent everything, so it is not to blame for the remaining time.
      stopWatching()
      parser.end()
    }
    const onClose = () => {
      // After a complete request, the parser finishes by itself.
      if (!request.complete) end(disconnected())
    }

    parser.on('file', (name, stream, filename) => {
      if (name !== 'file') {
        stream.on('error', () => {})
        return end(malformed('Only the field file may contain a file.'))
      }
      const stored = storeContent(stream, options.onContent)
      file = { stream, filename, stored }
      stored.catch(end)
    })
    parser.on('field', (name, value, isNameCut, isValueCut) => {
      if (isNameCut || isValueCut) end(malformed('A field is too long.'))
      else fields.set(name, value)
    })
    for (const limit of ['filesLimit', 'fieldsLimit', 'partsLimit']) {
      parser.on(limit, () => end(malformed('It has too many parts.')))
    }
    parser.on('error', () => end(malformed('It is not valid, or ends too early.')))
    parser.on('finish', () => {
      if (file === null) end(new V1Error(400, 'file: is required', { param: 'file' }))
      else file.stored.then(() => end(null), end)
    })
    request.on('data', onData).on('end', onEnd).on('close', onClose)
  })
}

async function storeContent(stream: BusboyFileStream, store: MultipartOptions['onContent']): Promise<void> {
  for await (const bytes of stream) await store(bytes)
}

function parserOf({ headers }: IncomingMessage) {
  const { 'content-type': type = '' } = headers
  try {
    return new Busboy({ headers: { ...headers, 'content-type': type }, limits: FORM_LIMITS })
  } catch {
    throw malformed('The content type has no boundary.')
  }
}

const disconnected = () => malformed('The connection closed before the whole body arrived.')
const malformed = (details: string) => new V1Error(400, `The multipart body cannot be read. ${details}`)

/**
 * An upload must be this fast on average in each window of WINDOW_MS. Time in which the server pauses reading does not count.
 */
const BYTES_PER_MS = 64 * 1.024
const WINDOW_MS = 10_000

/** Calls `onSlow` once, after the first window in which the client was too slow. Returns a function that ends the checks. */
function watchPace(
  request: IncomingMessage,
  clock: Pick<Clock, 'steadyMs' | 'after'>,
  onSlow: (error: V1Error) => void,
): () => void {
  let bytes = 0
  let waitedMs = 0
  let sinceMs = clock.steadyMs()
  let isPaused = false
  const count = () => {
    const nowMs = clock.steadyMs()
    if (!isPaused) waitedMs += nowMs - sinceMs
    sinceMs = nowMs
    isPaused = request.isPaused()
  }
  const onData = (piece: Buffer) => {
    count()
    bytes += piece.length
  }
  const onChange = () => count()
  const check = (): void => {
    count()
    if (bytes < waitedMs * BYTES_PER_MS) {
      onSlow(tooSlow())
      return
    }
    bytes = 0
    waitedMs = 0
    cancel = clock.after(WINDOW_MS, check)
  }
  let cancel = clock.after(WINDOW_MS, check)
  request.on('data', onData).on('pause', onChange).on('resume', onChange)
  return () => {
    cancel()
    request.off('data', onData).off('pause', onChange).off('resume', onChange)
  }
}

/** The client must not retry, because its next upload would be as slow. */
const tooSlow = () =>
  new V1Error(408, 'The upload is too slow: send at least 64 KiB per second.', { shouldRetry: false })
