/** Writes the responses to plain requests, and reports each to the main thread. */
import { JSON_TYPE } from '../http/envelope.ts'
import { LARGE_ANSWER } from '../http/large-answers.ts'
import { Pieces } from '../http/pieces.ts'
import type { Exchange } from './exchange.ts'
import type { ToMain } from './messages.ts'
import type { TurnPort } from './turn-port.ts'

export interface ResponderOptions {
  readonly port: Pick<TurnPort<ToMain>, 'send'>
  readonly steadyMs: () => number
  /** Whether the connection is to be closed after the response that is about to be sent. */
  readonly closes: () => boolean
}

export class Responder {
  readonly #options: ResponderOptions

  constructor(options: ResponderOptions) {
    this.#options = options
  }

  /** @param onSent called once the text is written, or its client is gone */
  send(
    exchange: Exchange,
    status: number,
    headers: string[],
    text: string,
    onSent: (() => void) | null = null,
  ): void {
    const { response, id } = exchange
    const length = String(Buffer.byteLength(text))
    if (this.#options.closes() && !headers.includes('close')) headers.push('connection', 'close')
    // The caller chooses the ID, which may be any of the texts above.
    headers.unshift('x-request-id', id)
    headers.push('content-type', JSON_TYPE, 'content-length', length)
    response.writeHead(status, headers)
    if (text.length <= LARGE_ANSWER) {
      response.end(text)
      onSent?.()
    } else this.#sendInPieces(exchange, text, onSent)
    this.#report(exchange, status)
  }

  /** A response that waits behind another on its connection may never begin, and then nothing else ends it. */
  #sendInPieces(
    { request: { socket }, response }: Exchange,
    text: string,
    onSent: (() => void) | null,
  ): void {
    const pieces = new Pieces(text, () => {
      socket.off('close', onClose)
      onSent?.()
    })
    const onClose = () => pieces.destroy()
    socket.once('close', onClose)
    if (socket.destroyed) pieces.destroy()
    else pieces.pipe(response)
  }

  #report({ request, id, route, startedMs, from, account, jobIds }: Exchange, status: number): void {
    const { port, steadyMs } = this.#options
    const { method = '' } = request
    port.send(['completed', id, method, route, status, steadyMs() - startedMs, from, account, jobIds])
  }
}
