/**
 * Reads a multipart body that contains one file. The body is read only as fast as the file is stored, so that little of it is
 * in memory. Slow uploads are aborted, because each takes memory.
 */
import type { IncomingMessage } from 'node:http'
import { Busboy, type BusboyFileStream } from '@fastify/busboy'
import type { Clock } from '../clock.ts'
import { V1Error } from './errors.ts'

/** Limits for everything except the content of the file. */
const LIMITS = {
  files: 1,
  fields: 10,
  parts: 11,
  fieldSize: 1024,
  fieldNameSize: 100,
  headerPairs: 20,
  headerSize: 8192,
} as const

export interface MultipartOptions {
  readonly clock: Pick<Clock, 'steadyMs' | 'after'>
  /** Called with each piece of the file. The next call waits for the promise of the previous one. */
  readonly onContent: (bytes: Uint8Array) => Promise<void>
}

export interface Multipart {
  /** The form fields other than the file. */
  readonly fields: ReadonlyMap<string, string>
  readonly filename: string
}

/** Rejects with a `V1Error`, or with the error of `onContent`; the rest of the body is then not read. */
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
      // The body has arrived. What takes time now is not the client's fault.
      stopWatching()
      parser.end()
    }
    const onClose = () => {
      // If the request is complete, the parser has received all of it, and will finish.
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
    return new Busboy({ headers: { ...headers, 'content-type': type }, limits: LIMITS })
  } catch {
    throw malformed('The content type has no boundary.')
  }
}

const disconnected = () => malformed('The connection closed before the whole body arrived.')
const malformed = (details: string) => new V1Error(400, `The multipart body cannot be read. ${details}`)

/**
 * The minimum rate of an upload: this many bytes per millisecond, on average over each window. Time in which the server pauses
 * reading does not count.
 */
const BYTES_PER_MS = 64 * 1.024
const WINDOW_MS = 10_000

/**
 * Calls `onSlow` once, at the end of the first window in which the client was too slow. Returns a function that ends the
 * checks.
 */
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

/** Clients must not retry, because the next upload would be as slow. */
const tooSlow = () =>
  new V1Error(408, 'The upload is too slow: send at least 64 KiB per second.', { shouldRetry: false })
