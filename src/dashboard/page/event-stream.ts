/** Parses server-sent events from a byte stream. The browser's EventSource cannot be used, because it cannot send a token. */

export interface ServerEvent {
  /** Empty for a comment, which only keeps the connection alive. */
  readonly name: string
  readonly data: string
}

export async function* eventsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = stream
    .pipeThrough(new TextDecoderStream() as never)
    .getReader() as ReadableStreamDefaultReader<string>
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const blocks = (rest + value).replaceAll('\r\n', '\n').split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) yield eventOf(block)
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

function eventOf(block: string): ServerEvent {
  let name = ''
  const data: string[] = []
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim()
    else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''))
  }
  return { name: name === '' && data.length > 0 ? 'message' : name, data: data.join('\n') }
}
