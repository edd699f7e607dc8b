/** Uploads lines and creates a batch of them, as callers do with OpenAI's client. */
import type OpenAI from 'openai'
import { toFile } from 'openai'

export const CHAT = '/v1/chat/completions'

/** @param contents the message of each line, whose `custom_id` is `say CONTENT` */
export async function submitBatch(
  openai: OpenAI,
  contents: readonly string[],
  otherLines: readonly string[] = [],
  metadata: Readonly<Record<string, string>> = { team: 'a' },
): Promise<OpenAI.Batch> {
  const lines = contents.map((content) => {
    const body = { model: 'gpt-5-mini', messages: [{ role: 'user', content }] }
    return JSON.stringify({ custom_id: `say ${content}`, method: 'POST', url: CHAT, body })
  })
  const file = await openai.files.create({
    file: await toFile(Buffer.from([...lines, ...otherLines].join('\n')), 'in.jsonl'),
    purpose: 'batch',
  })
  return openai.batches.create({ input_file_id: file.id, endpoint: CHAT, completion_window: '24h', metadata })
}
