/** Creates OpenAI's own client, configured only with the address and a key, as callers use it. */
import OpenAI, { type ClientOptions } from 'openai'
import type { Parley } from '../parley.ts'

export function openaiOf(parley: Pick<Parley, 'url'>, apiKey: string, options: ClientOptions = {}): OpenAI {
  return new OpenAI({ baseURL: `${parley.url}/v1`, apiKey, ...options })
}
