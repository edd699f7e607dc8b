/**
 * Builds and sends files that are the same for every request, such as those of /docs and the dashboard. Each is
 * compressed once and sent from the same buffer. A client that already has it gets 304.
 */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Pieces } from './large-answers.ts'

/** Returns a view without copying the bytes. Buffers that a thread sends arrive as `Uint8Array`. */
export function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

const compress = promisify(gzip)
/** A file up to this size is not compressed, because it fits into one packet. */
const SMALL_FILE = 1024
/** A file up to this size is sent in one piece. */
const ONE_PIECE = 16_384

export interface StaticFile {
  readonly type: string
  readonly body: Buffer
  /** `gzipped` is null if the file is too small to be compressed. */
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

/** Sends 304 if the client has the file. Keeps a Cache-Control header that the reply already has. */
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

/** Compares weakly, as RFC 9110 §13.1.2 requires. */
function namesTag(header: string | undefined, etag: string): boolean {
  return (header ?? '').split(',').some((one) => {
    const tag = one.trim().replace(/^W\//, '')
    return tag === '*' || tag === etag
  })
}
