/**
 * Files that are the same for every request. They are made on a thread of their own, so that no request waits for it. Each is
 * compressed once, sent from one buffer, and not sent again to clients that have it.
 */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Pieces } from './large-answers.ts'

/**
 * Returns a function that starts the thread once. After a failure, the next call starts another.
 * @param module the thread's module, which posts one message
 * @param what it makes, for the error
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
    // Node warns that stripping types is experimental. Operators cannot act on that, so it stays out of the log.
    const worker = new Worker(module, { workerData, execArgv: ['--disable-warning=ExperimentalWarning'] })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) =>
      reject(new Error(`the thread that builds ${what} exited with code ${code}`)),
    )
  })
}

/** Threads receive buffers as plain arrays of bytes. Returns a view of the same bytes, not a copy. */
export function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

const compress = promisify(gzip)
/** Files up to this size are not compressed: they fit into one packet. */
const SMALL_FILE = 1024
/** A file of at most this many bytes is written in one piece. */
const ONE_PIECE = 16_384

export interface StaticFile {
  readonly type: string
  readonly body: Buffer
  /** Null if compression is not worth it. */
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

/** Keeps headers that the reply already has. */
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

/** The header may already contain `Origin`. */
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
