/**
 * Starts what most tests need: a model server, and a server that calls it, with its first key.
 *
 * ```ts
 * const { models, server, caller } = await startServer(t, { models: { keep: false }, settings, start: { heapMib: 512 } })
 * ```
 */
import { type ModelServerForTests, type ModelServerOptions, startModelServer } from '../model-server.ts'
import type { Lifetime } from '../parley.ts'
import type { Caller } from './caller.ts'
import {
  type Installation,
  type InstallationOptions,
  installation,
  type ProgramOptions,
  type Server,
} from './server-process.ts'

interface StartOptions extends InstallationOptions {
  readonly models?: ModelServerOptions
  readonly start?: ProgramOptions
}

interface Started {
  readonly models: ModelServerForTests
  readonly place: Installation
  readonly server: Server
  readonly key: string
  readonly caller: Caller
}

export async function startServer(t: Lifetime, options: StartOptions = {}): Promise<Started> {
  const { models: modelOptions = {}, start = {}, ...others } = options
  const models = await startModelServer(modelOptions, t)
  const place = await installation(t, { upstream: models.baseUrl, ...others })
  const server = await place.start(start)
  const key = await server.firstKey()
  return { models, place, server, key, caller: server.caller(key) }
}
