/** POST /v1/files: stores an upload while it arrives, and leaves nothing behind if it fails. */
import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import type { Files, FileWriter, Written } from '../files/files.ts'
import { admissionError } from '../http/errors.ts'
import { memoryFull } from '../http/load-shedding/unavailable.ts'
import type { RequestBodies } from '../http/request-bodies.ts'
import { Counts } from '../sharing/counts.ts'
import type { AboutFile, StoredFile } from '../store/file-store.ts'
import { invalidField, V1Error } from './errors.ts'
import { type Multipart, readMultipart } from './multipart.ts'

/** An account may have this many uploads at the same time on a node. */
export const UPLOADS_OF_ACCOUNT = 2
/**
 * Each upload takes about 1 MiB of memory: a piece that is filled, its copy on the way to the database, and buffers of its
 * connection.
 */
export const UPLOADS_OF_NODE = 32
/** After an upload has failed, the rest of its body must arrive within this time. */
const REST_MS = 30_000
/** Bytes of a multipart body in addition to the file. */
const ENVELOPE_BYTES = 65_536
const MAX_FILENAME = 255
/** The same bounds as OpenAI's, in seconds. */
const LIFETIME_S = { minimum: 3600, maximum: 2_592_000 }

export interface UploadsOptions {
  readonly files: Files
  readonly bodies: Pick<RequestBodies, 'readOn'>
  readonly clock: Clock
  /** How long a file is stored if the upload does not say. */
  readonly retentionMs: number
}

export class Uploads {
  readonly #options: UploadsOptions
  readonly #inProgress = new Counts<string>()
  readonly #sockets = new WeakSet<Socket>()

  constructor(options: UploadsOptions) {
    this.#options = options
  }

  /** Whether the connection uploads a file: it has a minimum pace instead of the time limit of other requests. */
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

  /** Node's own time limit of the request may have passed during the upload, and applies only once. */
  #limitRest({ raw }: FastifyRequest): void {
    const cancel = this.#options.clock.after(REST_MS, () => raw.destroy())
    raw.once('close', cancel)
  }
}

/** Drops an error of the abort, because the caller gets the error that made the upload fail. */
async function abort(writer: FileWriter): Promise<void> {
  try {
    await writer.abort()
  } catch {
    // The database cannot write now. Retention will delete the file.
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
  // Postgres cannot store it.
  if (filename.includes('\0')) throw invalidField('file', 'must not have NUL in its name')
  const [anchor, seconds] = ['anchor', 'seconds'].map((name) => fields.get(`expires_after[${name}]`))
  const expiresAtMs = createdAtMs + (lifetimeMs(anchor, seconds) ?? retentionMs)
  return { filename: filename.slice(0, MAX_FILENAME), purpose, expiresAtMs }
}

/** Returns null if the upload has no lifetime. */
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
