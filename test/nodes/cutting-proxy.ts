/**
 * Runs a proxy between a node and Postgres whose connections can be cut during a statement: after Postgres got the statement,
 * and before the node gets the result. Only the database then knows the outcome.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface CuttingProxy {
  readonly url: string
  /** Cuts the connection on which the next result arrives, or with `statement`, the next result of that statement. */
  cutAtNextAnswer(statement?: string): void
  cuts(): number
  /** Closes all connections, and turns new ones away until `open` is called. */
  shut(): void
  open(): void
  /**
   * From now on, drops everything on the open connections, as if the host behind them had disappeared. New connections work.
   */
  silence(): void
  turnedAway(): number
  close(): Promise<void>
}

export async function startCuttingProxy(databaseUrl: string): Promise<CuttingProxy> {
  const target = new URL(databaseUrl)
  const open = new Set<Socket>()
  /** A connection on which this text was sent is cut at its next result. Null cuts none. */
  let cutting: string | null = null
  let shut = false
  let cuts = 0
  let turnedAway = 0
  const silencers = new Set<() => void>()
  const server = createServer((near) => {
    if (shut) {
      turnedAway += 1
      near.destroy()
      return
    }
    const far = connect(Number(target.port), target.hostname)
    const end = () => {
      near.destroy()
      far.destroy()
      open.delete(near)
    }
    open.add(near)
    near.on('error', end).on('close', end)
    far.on('error', end).on('close', end)
    let asked = false
    silencers.add(() => {
      near.removeAllListeners('data').resume()
      far.removeAllListeners('data').resume()
    })
    near.on('data', (data) => {
      asked = cutting !== null && data.includes(cutting)
      far.write(data)
    })
    far.on('data', (data) => {
      if (cutting === null || !asked) near.write(data)
      else {
        cutting = null
        cuts += 1
        end()
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(databaseUrl)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    cuts: () => cuts,
    turnedAway: () => turnedAway,
    cutAtNextAnswer: (statement = '') => {
      cutting = statement
    },
    silence: () => {
      for (const silence of silencers) silence()
      silencers.clear()
    },
    shut: () => {
      shut = true
      for (const socket of open) socket.destroy()
    },
    open: () => {
      shut = false
    },
    close: async () => {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
