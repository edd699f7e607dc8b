/** A client and the server that it calls, for tests of the client. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { FakeClock } from '../fake-clock.ts'
import { type ModelServerForTests, type Script, startModelServer } from '../model-server.ts'
import type { UpstreamSettings } from '../../src/config/settings.ts'
import { UPSTREAM_DEFAULTS } from '../../src/config/settings.ts'
import { Stop } from '../../src/job/stop.ts'
import { ChatCompletions, type ChatCompletionsOptions } from '../../src/upstreams/openai-client.ts'
import type { AnswerForm, Prompt, Reply, Trouble } from '../../src/upstreams/model-server.ts'

export const KEY = 'sk-parley-test-0123456789'
export const never = new Stop()

interface Bench {
  readonly server: ModelServerForTests
  readonly client: ChatCompletions
  readonly clock: FakeClock
}

interface BenchOptions extends Partial<Omit<ChatCompletionsOptions, 'settings'>> {
  readonly script?: Script
  readonly settings?: Partial<UpstreamSettings>
}

export async function bench(t: TestContext, options: BenchOptions = {}): Promise<Bench> {
  const { script, settings, ...rest } = options
  const server = await startModelServer(script === undefined ? {} : { script })
  const clock = new FakeClock()
  const client = new ChatCompletions({
    name: 'bench',
    apiKey: KEY,
    clock,
    ...rest,
    settings: { ...UPSTREAM_DEFAULTS, base_url: server.baseUrl, ...settings },
  })
  t.after(async () => {
    await client.close()
    await server.close()
  })
  return { server, client, clock }
}

export function prompt(content = 'Hello', form: AnswerForm = { kind: 'text' }): Prompt {
  return { messages: [{ role: 'user', content }], form }
}

export function isTrouble(reply: Reply): asserts reply is Trouble {
  assert.equal(reply.kind, 'trouble')
}

export async function troubleOf(t: TestContext, script: Script): Promise<Trouble> {
  const { client } = await bench(t, { script })
  const got = await client.ask('m', prompt(), never)
  isTrouble(got)
  return got
}
