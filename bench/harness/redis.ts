/** Starts a separate Redis. It is as durable as Parley: each write is on the disk before its reply. */
import { type AddressInfo, createServer } from 'node:net'
import { Child } from './child.ts'
import { removeScratch, scratchFolder } from './scratch.ts'

export interface Redis {
  readonly child: Child
  readonly port: number
  stop(): Promise<void>
}

export async function startRedis(): Promise<Redis> {
  const folder = scratchFolder()
  const port = await freePort()
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', '']
  const args = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, ...durable]
  const child = new Child({ name: 'redis', command: 'redis-server', args })
  await child.printed(/Ready to accept connections/)
  return {
    child,
    port,
    stop: async () => {
      await child.stop()
      removeScratch(folder)
    },
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })
}
