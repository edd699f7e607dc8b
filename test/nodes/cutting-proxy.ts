/**
 * A network between a node and Postgres that can be cut in the middle of a statement: after it arrived, and before its result
 * does. Then only the database knows what it did.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface CuttingProxy {
  /** The database's URL through this proxy. */
  readonly url: string
  /** Cuts the next connection to receive a result, or to receive that of the named statement. */
  cutAtNextAnswer(statement?: string): void
  /** The number of connections that were cut with a result in transit. */
  cuts(): number
  /** Blocks everything, including new connections, until `open`. */
  shut(): void
  open(): void
  /** Drops everything on the open connections from now on, as if the host behind them had disappeared. New ones work. */
  silence(): void
  /** Connections rejected while it was shut. */
  turnedAway(): number
  close(): Promise<void>
}

export async function startCuttingProxy(databaseUrl: string): Promise<CuttingProxy> {
  const target = new URL(databaseUrl)
  const open = new Set<Socket>()
  /** What must have been sent on a connection for its next result to be cut; null to cut none. */
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
