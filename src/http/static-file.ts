/**
 * Builds and sends files that are the same for every request, such as those of /docs and the dashboard. They are built on a
 * thread of their own, because building them on the event loop would delay requests. Each is compressed once and sent from the
 * same buffer; a client that already has it gets 304.
 */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Pieces } from './large-answers.ts'

/**
 * Returns a function that starts the thread at its first call, and always resolves with the same result. After a failure, the
 * next call starts another thread.
 * @param module the thread's module, which posts one message: the result
 * @param what the thread builds, for the error message
 */
export function madeInThread<T>(module: URL, what: string, workerData?: unknown): () => Promise<T> {
  let made: Promise<T> | null = null
  return () => {
    made ??= make<T>(module, what, workerData).catch((error: unknown) => {
      made = null
      throw error
    })
    return made
  }
}

function make<T>(module: URL, what: string, workerData: unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    // Node warns that type stripping is experimental. Operators cannot change that, so the warning would only clutter the log.
    const worker = new Worker(module, { workerData, execArgv: ['--disable-warning=ExperimentalWarning'] })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) =>
      reject(new Error(`the thread that builds ${what} exited with code ${code}`)),
    )
  })
}

/** Returns a view of the bytes, without copying them. Buffers that a thread sends arrive as `Uint8Array`. */
export function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

const compress = promisify(gzip)
/** A file of at most this many bytes is not compressed: it fits into one packet anyway. */
const SMALL_FILE = 1024
/** A file of at most this many bytes is written in one piece. */
const ONE_PIECE = 16_384

export interface StaticFile {
  readonly type: string
  readonly body: Buffer
  /** Null if the file is too small to be compressed. */
  readonly gzipped: Buffer | null
  readonly etag: string
}

export async function createStaticFile(type: string, body: Buffer): Promise<StaticFile> {
  const gzipped = body.length <= SMALL_FILE ? null : await compress(body)
  return staticFile(type, body, gzipped)
}

export function staticFile(type: string, body: Buffer, gzipped: Buffer | null): StaticFile {
  const etag = createHash('sha256').update(body).digest('base64url').slice(0, 22)
  return { type, body, gzipped, etag }
}

/** Sends the file, or 304. Keeps the reply's Cache-Control header if there is one. */
export function sendStaticFile(
  request: FastifyRequest,
  reply: FastifyReply,
  { type, body, gzipped, etag: tag }: StaticFile,
): FastifyReply {
  const isGzipped = gzipped !== null && acceptsGzip(request.headers['accept-encoding'])
  // RFC 9110 §8.8.3: each encoding of a file has its own entity tag.
  const etag = `"${tag}${isGzipped ? '-gzip' : ''}"`
  reply.header('etag', etag)
  if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-cache')
  if (gzipped !== null) addVary(reply, 'accept-encoding')
  if (namesTag(request.headers['if-none-match'], etag)) return reply.code(304).send()
  if (isGzipped) reply.header('content-encoding', 'gzip')
  const bytes = isGzipped ? gzipped : body
  reply.header('content-type', type).header('content-length', bytes.length)
  return reply.send(bytes.length <= ONE_PIECE ? bytes : new Pieces(bytes))
}

/** Adds to the header, because it may already contain `Origin`. */
function addVary(reply: FastifyReply, name: string): void {
  const given = reply.getHeader('vary')
  reply.header('vary', given === undefined ? name : `${given}, ${name}`)
}

function acceptsGzip(header: string | string[] | undefined): boolean {
  return String(header ?? '')
    .split(',')
    .some((one) => /^\s*(gzip|x-gzip|\*)\s*(;\s*q=(1|0\.\d*[1-9]\d*)(\.0*)?)?\s*$/i.test(one))
}

/** RFC 9110 §13.1.2: whether the header contains the tag, by weak comparison. */
function namesTag(header: string | undefined, etag: string): boolean {
  return (header ?? '').split(',').some((one) => {
    const tag = one.trim().replace(/^W\//, '')
    return tag === '*' || tag === etag
  })
}
