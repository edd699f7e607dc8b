/**
 * Interprets the `finish_reason` of an answer. Servers send more values than OpenAI documents, some of them in capital letters.
 */

export type Finish =
  | 'complete'
  /** A length limit of the request, the model or its context was reached, or the server stopped endless repetition. */
  | 'cut'
  /** A content filter stopped or withheld the answer. */
  | 'filtered'
  /** The server gave up in the middle of the answer. */
  | 'failed'

const KNOWN: Readonly<Record<string, Finish>> = {
  length: 'cut',
  // The names of Anthropic and Google, which gateways forward.
  max_tokens: 'cut',
  // Sent by Mistral if the model's context is full.
  model_length: 'cut',
  // Sent by Anthropic and Z.ai.
  model_context_window_exceeded: 'cut',
  // Sent by vLLM and MiMo if the answer repeats itself.
  repetition: 'cut',
  repetition_truncation: 'cut',
  content_filter: 'filtered',
  // Anthropic's name, which gateways forward.
  refusal: 'filtered',
  // Sent by Z.ai.
  sensitive: 'filtered',
  // These five are sent by Google.
  safety: 'filtered',
  recitation: 'filtered',
  blocklist: 'filtered',
  prohibited_content: 'filtered',
  spii: 'filtered',
  // Sent by Mistral and OpenRouter.
  error: 'failed',
  // Sent by vLLM and SGLang if they stop or restart.
  abort: 'failed',
  // Sent by DeepSeek if it is overloaded.
  insufficient_system_resource: 'failed',
  // Sent by Z.ai.
  network_error: 'failed',
}

/** Any other value, such as `stop`, `eos_token` or `tool_calls`, counts as the end of a complete answer. */
export function finishOf(reason: unknown): Finish {
  if (typeof reason !== 'string') return 'complete'
  // Google's OpenAI-compatible API adds Google's own reason: `content_filter: RECITATION`.
  const [word = ''] = reason.toLowerCase().split(':')
  return Object.hasOwn(KNOWN, word) ? (KNOWN[word] ?? 'complete') : 'complete'
}
