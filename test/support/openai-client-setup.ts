/** Starts a client for OpenAI-compatible servers and the model server that it calls, for tests of the client. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { UpstreamSettings } from '../../src/config/settings.ts'
import { UPSTREAM_DEFAULTS } from '../../src/config/settings.ts'
import type { Message } from '../../src/job/job.ts'
import { Stop, type StopSignal } from '../../src/job/stop.ts'
import type {
  AnswerForm,
  ModelServer,
  Prompt,
  Reply,
  UpstreamError,
} from '../../src/upstreams/model-server.ts'
import { OpenAiClient, type OpenAiClientOptions, type ReadLarge } from '../../src/upstreams/openai-client.ts'
import { readLargeCompletion } from '../../src/upstreams/read-completion.ts'
import { FakeClock } from '../fake-clock.ts'
import { type ModelServerForTests, type Script, startModelServer } from '../model-server.ts'

export const KEY = 'sk-parley-test-0123456789'
export const never = new Stop()

export const readHere: ReadLarge = (completion) => Promise.resolve(readLargeCompletion(completion))

interface Started {
  readonly server: ModelServerForTests
  readonly client: OpenAiClient
  readonly clock: FakeClock
  /** The default is the text `Hello`. */
  call(what?: Prompt, signal?: StopSignal): Promise<Reply>
  fail(signal?: StopSignal): Promise<UpstreamError>
}

interface StartOptions extends Partial<Omit<OpenAiClientOptions, 'settings'>> {
  readonly script?: Script
  readonly settings?: Partial<UpstreamSettings>
}

export async function startClient(t: TestContext, options: StartOptions = {}): Promise<Started> {
  const { script, settings, ...rest } = options
  const server = await startModelServer(script === undefined ? {} : { script })
  const clock = new FakeClock()
  const client = clientOf({ clock, ...rest }, { base_url: server.baseUrl, ...settings })
  t.after(async () => {
    await client.close()
    await server.close()
  })
  const call = (what = prompt(), signal: StopSignal = never) => ask(client, 'm', what, signal)
  const fail = async (signal?: StopSignal) => {
    const got = await call(prompt(), signal)
    isError(got)
    return got
  }
  return { server, client, clock, call, fail }
}

export function clientOf(options: Partial<OpenAiClientOptions>, settings: Partial<UpstreamSettings>) {
  return new OpenAiClient({
    name: 'upstream',
    apiKey: KEY,
    clock: new FakeClock(),
    readLarge: readHere,
    ...options,
    settings: { ...UPSTREAM_DEFAULTS, ...settings },
  })
}

export function prompt(content = 'Hello', form: AnswerForm = { kind: 'text' }): Prompt {
  return promptOf([{ role: 'user', content }], form)
}

export function promptOf(messages: readonly Message[], form: AnswerForm = { kind: 'text' }): Prompt {
  return { account: 'acme', messagesJson: JSON.stringify(messages), form }
}

/** The router makes its first call like this. */
export function ask(server: ModelServer, model: string, what: Prompt, signal: StopSignal): Promise<Reply> {
  return server.ask(model, what, server.requestFormat(model, what), signal)
}

export function isError(reply: Reply): asserts reply is UpstreamError {
  assert.equal(reply.kind, 'error')
}

export async function errorOf(
  t: TestContext,
  script: Script,
  options?: StartOptions,
): Promise<UpstreamError> {
  return (await startClient(t, { script, ...options })).fail()
}
