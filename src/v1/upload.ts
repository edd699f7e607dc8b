/** POST /v1/files: stores an uploaded file while it arrives. If the upload fails, what was stored is deleted. */
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

/** How many files an account may upload to a node at the same time. */
export const UPLOADS_OF_ACCOUNT = 2
/**
 * How many files may be uploaded to a node at the same time. Each upload takes about 1 MiB of memory: a piece that is being
 * filled, its copy on the way to the database, and the buffers of its connection.
 */
export const UPLOADS_OF_NODE = 32
/** After an upload has failed, the rest of its body must arrive within this time, in milliseconds. */
const REST_MS = 30_000
/** An upper bound for the bytes of a multipart body around the file. */
const ENVELOPE_BYTES = 65_536
const MAX_FILENAME = 255
/** The same limits as OpenAI's, in seconds. */
const LIFETIME_S = { minimum: 3600, maximum: 2_592_000 }

export interface UploadsOptions {
  readonly files: Files
  readonly bodies: Pick<RequestBodies, 'readOn'>
  readonly clock: Clock
  /** How long a file is stored if the upload does not specify it. */
  readonly retentionMs: number
}

export class Uploads {
  readonly #options: UploadsOptions
  readonly #inProgress = new Counts<string>()
  readonly #sockets = new WeakSet<Socket>()

  constructor(options: UploadsOptions) {
    this.#options = options
  }

  /** Whether the connection uploads a file. If so, a minimum rate (`multipart.ts`) applies instead of the timeout of requests. */
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

  /**
   * Limits the time for the rest of the body. Node's own timeout may have passed during the upload, and it applies only once.
   */
  #limitRest({ raw }: FastifyRequest): void {
    const cancel = this.#options.clock.after(REST_MS, () => raw.destroy())
    raw.once('close', cancel)
  }
}

/** Ignores an error, because the caller gets the error that made the upload fail. */
async function abort(writer: FileWriter): Promise<void> {
  try {
    await writer.abort()
  } catch {
    // The database cannot write now. Retention will delete the file later.
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
  // Postgres cannot store NUL.
  if (filename.includes('\0')) throw invalidField('file', 'must not have NUL in its name')
  const [anchor, seconds] = ['anchor', 'seconds'].map((name) => fields.get(`expires_after[${name}]`))
  const expiresAtMs = createdAtMs + (lifetimeMs(anchor, seconds) ?? retentionMs)
  return { filename: filename.slice(0, MAX_FILENAME), purpose, expiresAtMs }
}

/** Returns null if the upload does not specify a lifetime. */
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
