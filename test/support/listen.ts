/** Starts servers that a test wrote itself on a free port of 127.0.0.1. */
import { once } from 'node:events'
import { Server as HttpServer } from 'node:http'
import { Server as HttpsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import type { Lifetime } from '../parley.ts'

export async function listen(t: Lifetime, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    if (server instanceof HttpServer || server instanceof HttpsServer) server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}
